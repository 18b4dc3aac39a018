//! What was counted, as OpenMetrics and as JSON.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};
use sluice_client::{Histogram, Meter};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the figures of a mount come from.
#[derive(Clone, Debug)]
pub(in crate::mount) struct Figures {
    /// What is mounted, as the mount table shows it.
    pub(in crate::mount) source: String,
    /// Where.
    pub(in crate::mount) target: String,
    /// The words behind `-o`.
    pub(in crate::mount) options: String,
    /// Requests that the kernel made.
    pub(in crate::mount) requests: Arc<AtomicU64>,
    /// Of the connections to the server, if there is one.
    pub(in crate::mount) meter: Option<Arc<Meter>>,
}

impl Figures {
    /// In the words of Prometheus.
    pub(super) fn open_metrics(&self) -> String {
        let label = |name: &'static str, value: &str| (name.into(), Cow::Owned(value.to_owned()));
        let labels = [label("source", &self.source), label("target", &self.target)];
        let mut registry = Registry::with_prefix_and_labels("sluice_mount", labels.into_iter());
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    /// For programs, and for `sluice stats`.
    pub(super) fn json(&self) -> String {
        let mut all = json!({
            "source": self.source,
            "target": self.target,
            "options": self.options,
            "requests": self.requests.load(Ordering::Relaxed),
        });
        if let Some(meter) = &self.meter {
            let reading = meter.read();
            all["server"] = json!({
                "uptime_seconds": reading.uptime.as_secs_f64(),
                "waited_seconds": reading.waited.as_secs_f64(),
                "copied_bytes": reading.copied,
                "replies_waited": reading.replies_waited,
                "sent_bytes": histogram(&reading.sent),
                "received_bytes": histogram(&reading.received),
                "reply_microseconds": histogram(&reading.delays),
            });
        }
        all.to_string()
    }
}

/// Its buckets that have something in them, each with the largest value that it
/// takes (`null`: any).
fn histogram(values: &Histogram) -> Value {
    let buckets = values.counts.iter().enumerate();
    let buckets: Vec<_> = buckets
        .filter(|(_, count)| **count > 0)
        .map(|(index, count)| json!([Histogram::bound(index), count]))
        .collect();
    json!({
        "count": values.count(),
        "sum": values.sum,
        "median": values.quantile(0.5),
        "p99": values.quantile(0.99),
        "buckets": buckets,
    })
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut counter = |name: &str, help: &str, unit: Option<&Unit>, value: f64| {
            encoder
                .encode_descriptor(name, help, unit, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&value, None)
        };
        let requests = self.requests.load(Ordering::Relaxed) as f64;
        counter("requests", "Requests of the kernel", None, requests)?;
        let Some(meter) = &self.meter else {
            return Ok(());
        };
        let reading = meter.read();
        let waited = reading.waited.as_secs_f64();
        let (seconds, bytes) = (Unit::Seconds, Unit::Bytes);
        counter(
            "waited",
            "Time in which at least one request waited for the server, be it away; of one \
            wait for a reply in eight, times eight, where to read the clock is a system call",
            Some(&seconds),
            waited,
        )?;
        counter(
            "copied",
            "Payloads that were copied on the way",
            Some(&bytes),
            reading.copied as f64,
        )?;
        counter(
            "replies_waited",
            "Replies that were waited for",
            None,
            reading.replies_waited as f64,
        )?;
        let mut histogram =
            |name: &str, help: &str, unit: &Unit, values: &Histogram, scale: f64| {
                let bound =
                    |index| Histogram::bound(index).map_or(f64::MAX, |it| it as f64 * scale);
                let counts = values.counts.iter().enumerate();
                let buckets: Vec<_> = counts
                    .map(|(index, count)| (bound(index), *count))
                    .collect();
                encoder
                    .encode_descriptor(name, help, Some(unit), MetricType::Histogram)?
                    .encode_histogram::<NoLabelSet>(
                        values.sum as f64 * scale,
                        values.count(),
                        &buckets,
                        None,
                    )
            };
        histogram("sent", "Messages to the server", &bytes, &reading.sent, 1.0)?;
        histogram(
            "received",
            "Messages from the server",
            &bytes,
            &reading.received,
            1.0,
        )?;
        histogram(
            "reply_wait",
            "How long each reply was waited for; one in eight, which counts eight times, \
            where to read the clock is a system call",
            &seconds,
            &reading.delays,
            1e-6,
        )
    }
}
