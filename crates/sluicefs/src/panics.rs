//! The boundary that no panic passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what serves one request. A panic in it is a bug; it costs that request
/// (whose exchange answers `EIO` when it is dropped) and is logged, but the
/// process and everybody else's requests go on.
pub(crate) fn contain(serve: impl FnOnce()) {
    // Unwind safety: what is shared between requests is behind locks whose
    // owners cope with poisoning; everything else ends with the request.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(serve)) {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        tracing::error!(message, "a request failed by a bug in this program");
    }
}
