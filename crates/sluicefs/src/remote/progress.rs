//! How far a long copy is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// Draws to stderr if that is a terminal, and to nothing otherwise.
pub(super) fn bar(total: Option<u64>, name: &str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(total, target);
    let template = match total {
        Some(_) => "{wide_msg} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}",
        None => "{wide_msg} {bytes} {binary_bytes_per_sec}",
    };
    // The template is a constant; a bar without style would do, too.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(printable(name));
    bar
}

/// Without what would move the cursor.
pub(super) fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}
