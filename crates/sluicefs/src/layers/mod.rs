//! Layers: services that stand before another one and are one.

pub mod xattr_map;
