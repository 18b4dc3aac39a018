//! What connections did so far: counters that cost no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a connection did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Bytes of payloads that were received and copied on the way, which
    /// happens to small ones.
    pub copied: u64,
    /// Times that somebody waited for the server.
    pub waits: u64,
}

/// Counts what the connections do that are made with the same
/// [`ConnectOptions`](crate::ConnectOptions), one after another or at a time.
#[derive(Debug)]
pub struct Meter {
    since: Instant,
    /// One wait in so many is timed, and stands for all of them.
    period: u64,
    /// Replies that somebody began to wait for.
    replies_waited: AtomicU64,
    sent: Sizes,
    received: Sizes,
    copied: AtomicU64,
    waits: AtomicU64,
    /// Microseconds for which each reply was waited for.
    delays: Sizes,
    waiting: Waiting,
    /// For the next connection, where not all waits for replies are timed.
    away: Waiting,
}

/// What a [`Meter`] shows at a time.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How long the meter has been running.
    pub uptime: Duration,
    /// Messages that were sent, by their length in bytes.
    pub sent: Histogram,
    /// Messages that were received, by their length in bytes.
    pub received: Histogram,
    /// Bytes of payloads that were copied on the way.
    pub copied: u64,
    /// Replies that somebody waited for or waits for now. Locks that others hold are
    /// not among them.
    pub replies_waited: u64,
    /// These, by the microseconds that they were waited for. Where to read the clock is
    /// a system call, one in eight is timed and counts eight times.
    pub delays: Histogram,
    /// Time in which at least one request waited for the server, for its reply or until
    /// it was back; of replies there too eight times that of one wait in eight. No more
    /// than `uptime`.
    pub waited: Duration,
}

/// How many values there were of which size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Values up to [`Histogram::bound`] of the index, and above the one before.
    pub counts: [u64; BUCKETS],
    /// The sum of all values.
    pub sum: u64,
}

/// Powers of two: from 1 to half a minute of microseconds, or 32 MiB of bytes.
const BUCKETS: usize = 26;

impl Histogram {
    /// The largest value that bucket `index` counts; none for the last one, which
    /// takes all that are larger.
    pub fn bound(index: usize) -> Option<u64> {
        (index + 1 < BUCKETS).then(|| 1 << index)
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The bound of the bucket that the value at this share of all (0 to 1) is in;
    /// 0 if there were none.
    pub fn quantile(&self, share: f64) -> u64 {
        let count = self.count();
        let rank = (count as f64 * share).ceil() as u64;
        let mut below = 0;
        let reaches = |n: &u64| {
            below += n;
            below >= rank.max(1)
        };
        match self.counts.iter().position(reaches) {
            Some(at) => 1 << at,
            None => 0,
        }
    }
}

/// A histogram that is counted in.
#[derive(Debug)]
struct Sizes {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
        }
    }
}

impl Sizes {
    fn add(&self, value: u64) {
        self.add_many(value, 1);
    }

    fn add_many(&self, value: u64, count: u64) {
        let index = value.max(1).next_power_of_two().trailing_zeros() as usize;
        if let Some(counter) = self.counts.get(index.min(BUCKETS - 1)) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
        self.sum
            .fetch_add(value.saturating_mul(count), Ordering::Relaxed);
    }

    fn read(&self) -> Histogram {
        Histogram {
            counts: self.counts.each_ref().map(|it| it.load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// Time in which anybody waits.
///
/// Who is the first takes the time off the sum, and who is the last adds it: in
/// whichever order these meet the sum, it comes out right once nobody waits.
#[derive(Debug, Default)]
struct Waiting {
    /// How many wait.
    count: AtomicU64,
    /// In nanoseconds, wrapping.
    sum: AtomicU64,
}

impl Waiting {
    /// One more waits, from this time on.
    fn begin(&self, at: u64) {
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.sum.fetch_sub(at, Ordering::AcqRel);
        }
    }

    /// One waits no more.
    fn end(&self, at: u64) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.sum.fetch_add(at, Ordering::AcqRel);
        }
    }

    /// The sum at a time, unless somebody is between the two: what remains is a moment
    /// of his.
    fn read(&self, clock: impl Fn() -> u64) -> Option<u64> {
        let waits = self.count.load(Ordering::Acquire) > 0;
        let now = clock();
        let sum = self.sum.load(Ordering::Acquire);
        let waited = if waits { sum.wrapping_add(now) } else { sum };
        (waited <= now).then_some(waited)
    }
}

/// How much a look at the clock may cost: without a system call it takes tens of
/// nanoseconds.
const CHEAP: Duration = Duration::from_nanos(500);

/// One wait in so many is timed where it costs more.
const SPARSE: u64 = 8;

impl Default for Meter {
    fn default() -> Self {
        // The shortest of some: others may have been interrupted.
        let cost = (0..8).map(|_| Instant::now().elapsed()).min();
        let is_cheap = cost.is_none_or(|cost| cost <= CHEAP);
        Meter::with_period(if is_cheap { 1 } else { SPARSE })
    }
}

impl Meter {
    fn with_period(period: u64) -> Self {
        Meter {
            since: Instant::now(),
            period,
            replies_waited: AtomicU64::new(0),
            sent: Sizes::default(),
            received: Sizes::default(),
            copied: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            delays: Sizes::default(),
            waiting: Waiting::default(),
            away: Waiting::default(),
        }
    }
}

/// Somebody waits for a reply, until this is dropped.
pub(crate) struct Wait<'m> {
    meter: &'m Meter,
    /// Where it is timed.
    start: Option<Instant>,
}

/// Somebody waits until the server is back, until this is dropped.
pub(crate) struct Outage<'m>(&'m Meter);

impl Meter {
    pub(crate) fn add_sent(&self, len: usize) {
        self.sent.add(len as u64);
    }

    pub(crate) fn add_received(&self, len: usize) {
        self.received.add(len as u64);
    }

    pub(crate) fn add_copied(&self, len: usize) {
        self.copied.fetch_add(len as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// A reply is waited for from now on.
    pub(crate) fn wait(&self) -> Wait<'_> {
        let nth = self.replies_waited.fetch_add(1, Ordering::Relaxed);
        match nth % self.period {
            0 => self.wait_from(Instant::now()),
            _ => Wait {
                meter: self,
                start: None,
            },
        }
    }

    fn wait_from(&self, start: Instant) -> Wait<'_> {
        self.waiting.begin(self.nanos(start));
        let start = Some(start);
        Wait { meter: self, start }
    }

    /// The server is away, and that is waited for from now on.
    pub(crate) fn outage(&self) -> Outage<'_> {
        self.outages().begin(self.nanos(Instant::now()));
        Outage(self)
    }

    /// Where outages are counted: they are rare, and so all are timed.
    fn outages(&self) -> &Waiting {
        match self.period {
            1 => &self.waiting,
            _ => &self.away,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.read().count(),
            received: self.received.read().count(),
            copied: self.copied.load(Ordering::Relaxed),
            waits: self.waits.load(Ordering::Relaxed),
        }
    }

    /// What it shows now.
    pub fn read(&self) -> Reading {
        let (uptime, waited) = self.waited();
        Reading {
            uptime,
            sent: self.sent.read(),
            received: self.received.read(),
            copied: self.copied.load(Ordering::Relaxed),
            replies_waited: self.replies_waited.load(Ordering::Relaxed),
            delays: self.delays.read(),
            waited,
        }
    }

    /// The time that it runs and the part of it in which somebody waited.
    fn waited(&self) -> (Duration, Duration) {
        let clock = || self.nanos(Instant::now());
        loop {
            if let (Some(waiting), Some(away)) = (self.waiting.read(clock), self.away.read(clock)) {
                let now = clock();
                let waited = waiting.saturating_mul(self.period).saturating_add(away);
                return (
                    Duration::from_nanos(now),
                    Duration::from_nanos(waited.min(now)),
                );
            }
            std::thread::yield_now();
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.since).as_nanos() as u64
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(start) = self.start else {
            return;
        };
        let end = Instant::now();
        let delay = end.saturating_duration_since(start).as_micros() as u64;
        self.meter.delays.add_many(delay, self.meter.period);
        self.meter.waiting.end(self.meter.nanos(end));
    }
}

impl Drop for Outage<'_> {
    fn drop(&mut self) {
        self.0.outages().end(self.0.nanos(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_by_their_size() {
        let sizes = Sizes::default();
        for value in [
            0,
            1,
            2,
            3,
            4,
            5,
            1 << 20,
            (1 << 20) + 1,
            u64::from(u32::MAX),
        ] {
            sizes.add(value);
        }
        let read = sizes.read();
        assert_eq!(read.counts[..4], [2, 1, 2, 1]);
        assert_eq!(
            (read.counts[20], read.counts[21], read.counts[25]),
            (1, 1, 1)
        );
        assert_eq!(read.count(), 9);
        assert_eq!(read.sum, 15 + (2 << 20) + 1 + u64::from(u32::MAX));
        assert_eq!((read.quantile(0.0), read.quantile(0.5)), (1, 4));
        assert_eq!(Sizes::default().read().quantile(0.5), 0);
        assert_eq!((Histogram::bound(0), Histogram::bound(25)), (Some(1), None));
    }

    #[test]
    fn who_waits_for_the_server_to_be_back_is_counted_once() {
        for period in [1, SPARSE] {
            let meter = Meter::with_period(period);
            let outage = meter.outage();
            let began = meter.nanos(Instant::now());
            while meter.nanos(Instant::now()) < began + 2_000_000 {}
            let (uptime, waited) = meter.waited();
            assert!(waited >= Duration::from_millis(2) && waited <= uptime);
            drop(outage);
            let (_, then) = meter.waited();
            assert!(then >= waited && meter.delays.read().count() == 0);
            assert_eq!(meter.waited().1, then, "nobody waits any more");
        }
    }

    #[test]
    fn time_is_counted_once_however_many_wait() {
        let meter = Meter::with_period(1);
        let at = |ms| meter.since + Duration::from_millis(ms);
        let first = meter.wait_from(at(0));
        let second = meter.wait_from(at(0));
        drop(second);
        assert_eq!(meter.waiting.count.load(Ordering::Relaxed), 1);
        drop(first);
        let reading = meter.read();
        assert_eq!(reading.delays.count(), 2);
        assert!(reading.waited <= reading.uptime);
        // Nobody waits, so it stands still.
        assert_eq!(meter.read().waited, reading.waited);
        // Both together began at 0: the sum of the delays is more than it.
        let delays = Duration::from_micros(reading.delays.sum + 2);
        assert!(reading.waited <= delays);
    }

    #[test]
    fn one_wait_in_so_many_stands_for_all() {
        let meter = Meter::with_period(8);
        let start = meter.since;
        let mut timed = Vec::new();
        for nth in 0..13 {
            let mut wait = meter.wait();
            if wait.start.is_some() {
                timed.push(nth);
                wait.start = Some(start);
            }
        }
        assert_eq!(timed, [0, 8]);
        let reading = meter.read();
        assert_eq!(reading.delays.count(), 16);
        assert!(reading.waited <= reading.uptime);
        // What is counted and not timed is exact.
        assert_eq!(reading.replies_waited, 13);
    }

    #[test]
    fn it_can_be_read_while_others_count() {
        let meter = Meter::with_period(1);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..20_000).for_each(|_| drop(meter.wait())));
            }
            for _ in 0..1000 {
                let reading = meter.read();
                assert!(reading.waited <= reading.uptime);
            }
        });
        let reading = meter.read();
        assert_eq!(
            (reading.delays.count(), reading.replies_waited),
            (60_000, 60_000)
        );
        assert_eq!(meter.waiting.count.load(Ordering::Relaxed), 0);
    }
}
