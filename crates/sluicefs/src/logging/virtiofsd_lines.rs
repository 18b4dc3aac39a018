//! Log lines as virtiofsd writes them: `[TIME LEVEL virtiofsd] MESSAGE`, with the
//! time in whole seconds. Programs that start it show them, and look for some.

use std::fmt;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

pub(super) struct VirtiofsdLines;

impl<S, N> FormatEvent<S, N> for VirtiofsdLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(&head(event.metadata().level().as_str()))?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// What stands before the message.
pub(super) fn head(level: &str) -> String {
    let mut now = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut now));
    let seconds = now.split(['.', 'Z']).next().unwrap_or_default();
    format!("[{seconds}Z {level:<5} virtiofsd] ")
}

#[cfg(test)]
mod tests {
    use super::head;

    #[test]
    fn a_head_is_time_level_and_name() {
        let head = head("INFO");
        assert_eq!(
            head.len(),
            "[2026-11-22T00:36:37Z INFO  virtiofsd] ".len(),
            "{head}"
        );
        assert!(
            head.starts_with("[2") && head.ends_with("Z INFO  virtiofsd] "),
            "{head}"
        );
    }
}
