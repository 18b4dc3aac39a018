//! SIGINT, SIGTERM and SIGHUP end a run after the burst in progress, so that
//! servers, mounts and the share go away in order.

use super::error::{BenchError, Context};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static RAISED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Begins to watch. A second signal of the same kind kills as usual.
///
/// # Errors
/// When the handlers can't be installed.
pub fn watch() -> Result<(), BenchError> {
    let raised = RAISED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(raised))
            .context("watching signals")?;
        signal_hook::flag::register(signal, Arc::clone(raised)).context("watching signals")?;
    }
    Ok(())
}

/// Fails once a signal has come.
///
/// # Errors
/// "interrupted".
pub fn check() -> Result<(), BenchError> {
    match RAISED.get() {
        Some(raised) if raised.load(Ordering::Relaxed) => Err(BenchError::new("interrupted")),
        _ => Ok(()),
    }
}
