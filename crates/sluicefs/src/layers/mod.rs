//! Layers: services that stand before another one and are one.

pub mod entrants;
pub mod second_look;
pub mod xattr_map;
