//! Looking for the next job before going to sleep.

use std::str::FromStr;
use std::time::Duration;

/// How long a leader looks for another job before it sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Polling {
    /// Up to 200 µs, where that has paid off lately.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// Always this long.
    For(Duration),
}

/// The longest that can be asked for.
const LONGEST: Duration = Duration::from_millis(10);

impl FromStr for Polling {
    type Err = String;

    /// `auto`, `off`, or a whole number of microseconds (`us`) or milliseconds
    /// (`ms`) up to 10 ms.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(Polling::Auto),
            "off" | "0" => return Ok(Polling::Off),
            _ => {}
        }
        let error = || "write auto, off, or a duration up to 10ms such as 50us".to_owned();
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| error())?;
        let duration = match unit {
            "us" => Duration::from_micros(number),
            "ms" => Duration::from_millis(number),
            _ => return Err(error()),
        };
        match duration {
            Duration::ZERO => Ok(Polling::Off),
            _ if duration > LONGEST => Err(error()),
            _ => Ok(Polling::For(duration)),
        }
    }
}

/// Decides whether to poll, from how long it took until the next job came.
///
/// Whether polling pays cannot be told beforehand: it saves waking a processor
/// that sleeps, but where the scheduler had sender and server take turns on one
/// processor it drives them apart, which costs more. So both are tried in turn:
/// sleeping first, then polling for as long as the gaps between jobs are shorter
/// by an eighth that way, and sleeping again every now and then to see whether that
/// still holds. So a processor that looks in vain for most of the time does so only
/// where to wake it would take a good part of that time.
#[derive(Debug)]
pub(crate) struct Poller {
    polling: Polling,
    polls: bool,
    /// Gaps in the present mode: how many, and the sum of those that count.
    gaps: u32,
    sum: Duration,
    /// The mean gap when sleep was tried last.
    sleep_mean: Duration,
    /// How many gaps to sleep through before polling is tried.
    patience: u32,
    /// Falls with each window that passed in vain.
    credit: u32,
    /// There is one processor: whoever is to send the next job needs it.
    pub(crate) is_alone: bool,
}

/// For how long to poll, automatically: a guest's next request is that far away, with
/// what the guest itself does in between. KVM polls as long for a guest that is idle.
const AUTO_WINDOW: Duration = Duration::from_micros(200);
/// One part in so many of a gap must be gained.
const WORTH: u32 = 8;
/// Gaps so short leave nothing to gain.
const SHORT_GAP: Duration = Duration::from_micros(6);
/// Gaps of a trial; the first half, in which the scheduler settles, does not count.
const TRIAL: u32 = 32;
/// Gaps until sleep is tried again.
const REVIEW: u32 = 2048;
/// Most gaps until polling is tried again.
const PATIENCE_MAX: u32 = 8192;
/// What a gap that was polled through earns, what one in vain costs.
const CREDIT_MAX: u32 = 64;
const CREDIT_IN_VAIN: u32 = 8;

impl Poller {
    pub(crate) fn new(polling: Polling) -> Self {
        Poller {
            polling,
            polls: false,
            gaps: 0,
            sum: Duration::ZERO,
            sleep_mean: Duration::MAX,
            patience: TRIAL,
            credit: 0,
            is_alone: false,
        }
    }

    /// Whether it wants to know how long jobs were waited for.
    pub(crate) fn is_timed(&self) -> bool {
        match self.polling {
            Polling::For(_) => true,
            Polling::Auto => !self.is_alone,
            Polling::Off => false,
        }
    }

    /// How long to look for a job from the end of the last one.
    pub(crate) fn window(&self) -> Duration {
        match self.polling {
            Polling::For(window) => window,
            Polling::Auto if self.polls => AUTO_WINDOW,
            Polling::Auto | Polling::Off => Duration::ZERO,
        }
    }

    /// A job came within the window, `gap` after the last one.
    pub(crate) fn found(&mut self, gap: Duration) {
        if !self.polls {
            return;
        }
        self.credit = (self.credit + 1).min(CREDIT_MAX);
        self.count(gap);
        if self.gaps == TRIAL {
            match self.trial_mean() <= self.sleep_mean - self.sleep_mean / WORTH {
                true => self.patience = TRIAL,
                false => self.give_up(),
            }
        } else if self.gaps >= REVIEW {
            self.begin(false);
        }
    }

    /// The leader slept; `gap` passed from one job to the next.
    pub(crate) fn slept(&mut self, gap: Duration) {
        if self.polling != Polling::Auto {
            return;
        }
        if self.polls {
            match self.credit.checked_sub(CREDIT_IN_VAIN) {
                Some(left) => self.credit = left,
                None => self.give_up(),
            }
        } else if gap > AUTO_WINDOW {
            self.begin(false); // polling would have been in vain
        } else {
            self.count(gap);
            if self.gaps >= self.patience {
                self.end_sleep();
            }
        }
    }

    fn end_sleep(&mut self) {
        self.sleep_mean = self.trial_mean();
        let polls = self.sleep_mean > SHORT_GAP;
        self.begin(polls);
        self.credit = CREDIT_MAX / 2;
    }

    fn give_up(&mut self) {
        self.patience = (self.patience * 2).min(PATIENCE_MAX);
        self.begin(false);
    }

    fn begin(&mut self, polls: bool) {
        self.polls = polls;
        self.gaps = 0;
        self.sum = Duration::ZERO;
    }

    /// Counts towards a trial's mean if it is in the second half of one.
    fn count(&mut self, gap: Duration) {
        let trial = if self.polls { TRIAL } else { self.patience };
        self.gaps += 1;
        if self.gaps + TRIAL / 2 > trial && self.gaps <= trial {
            self.sum += gap;
        }
    }

    fn trial_mean(&self) -> Duration {
        self.sum / (TRIAL / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn words_and_durations() {
        for (text, polling) in [
            ("auto", Polling::Auto),
            ("off", Polling::Off),
            ("0", Polling::Off),
            ("0us", Polling::Off),
            ("30us", Polling::For(us(30))),
            ("10ms", Polling::For(us(10_000))),
        ] {
            assert_eq!(text.parse(), Ok(polling), "{text}");
        }
        for text in [
            "",
            "on",
            "50",
            "11ms",
            "1s",
            "-1us",
            "us",
            "99999999999999999999us",
        ] {
            assert!(text.parse::<Polling>().is_err(), "{text}");
        }
    }

    /// Sleeps through `count` gaps.
    fn sleep(poller: &mut Poller, count: u32, gap: Duration) {
        for _ in 0..count {
            assert_eq!(poller.window(), us(0));
            poller.slept(gap);
        }
    }

    /// Polls through `count` gaps.
    fn poll(poller: &mut Poller, count: u32, gap: Duration) {
        for _ in 0..count {
            assert_eq!(poller.window(), AUTO_WINDOW);
            poller.found(gap);
        }
    }

    #[test]
    fn polling_goes_on_while_it_is_faster_and_is_reviewed() {
        let mut poller = Poller::new(Polling::Auto);
        for _ in 0..3 {
            sleep(&mut poller, TRIAL, us(30));
            poll(&mut poller, REVIEW, us(10));
        }
        sleep(&mut poller, 1, us(30));
    }

    #[test]
    fn polling_ends_where_it_gains_little_and_is_tried_again_less_and_less_often() {
        for (slept, polled) in [(10, 12), (80, 75)] {
            let mut poller = Poller::new(Polling::Auto);
            let mut patience = TRIAL;
            for _ in 0..12 {
                sleep(&mut poller, patience, us(slept));
                poll(&mut poller, TRIAL, us(polled));
                patience = (patience * 2).min(PATIENCE_MAX);
            }
        }
    }

    #[test]
    fn a_trial_does_not_count_while_the_scheduler_settles() {
        let mut poller = Poller::new(Polling::Auto);
        sleep(&mut poller, TRIAL / 2, us(199));
        sleep(&mut poller, TRIAL / 2, us(9));
        poll(&mut poller, TRIAL, us(10));
        sleep(&mut poller, 2 * TRIAL, us(9));
    }

    #[test]
    fn nothing_is_tried_where_nothing_can_be_gained() {
        for gap in [us(1), SHORT_GAP, us(201), us(1_000_000)] {
            let mut poller = Poller::new(Polling::Auto);
            sleep(&mut poller, 2 * REVIEW, gap);
        }
    }

    #[test]
    fn windows_in_vain_are_forgiven_when_rare_and_end_it_when_many() {
        let mut poller = Poller::new(Polling::Auto);
        sleep(&mut poller, TRIAL, us(30));
        for _ in 0..20 {
            poll(&mut poller, 2 * CREDIT_IN_VAIN, us(10));
            poller.slept(us(1_000));
        }
        for _ in 0..CREDIT_MAX / CREDIT_IN_VAIN {
            poller.slept(us(1_000));
        }
        poller.slept(us(1_000));
        sleep(&mut poller, TRIAL, us(1_000));
    }

    #[test]
    fn a_clock_is_asked_only_where_something_depends_on_it() {
        let is_timed = |polling, is_alone| {
            let poller = Poller {
                is_alone,
                ..Poller::new(polling)
            };
            poller.is_timed()
        };
        for polling in [Polling::Auto, Polling::Off, Polling::For(us(7))] {
            assert_eq!(is_timed(polling, false), polling != Polling::Off);
            assert_eq!(is_timed(polling, true), polling == Polling::For(us(7)));
        }
    }

    #[test]
    fn what_was_asked_for_stays() {
        for (polling, window) in [(Polling::Off, us(0)), (Polling::For(us(7)), us(7))] {
            let mut poller = Poller::new(polling);
            for idle in [us(1), us(30), us(10_000)] {
                poller.slept(idle);
                assert_eq!(poller.window(), window);
            }
        }
    }
}
