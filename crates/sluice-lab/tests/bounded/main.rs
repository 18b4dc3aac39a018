//! What a guest can make the daemon hold, and what it keeps from others.

mod children;
mod sessions;
mod tree;
