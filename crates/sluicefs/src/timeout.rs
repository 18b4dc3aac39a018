//! Durations as users write them.

use std::str::FromStr;
use std::time::Duration;

/// How long something may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// This long; zero means not at all.
    For(Duration),
    /// For as long as the mount lives.
    Always,
}

impl Timeout {
    /// What `Always` is on a wire that has no word for it.
    const FOREVER: Duration = Duration::from_secs(u64::MAX / 1_000_000_000);

    /// The duration, with a few centuries for [`Timeout::Always`].
    pub fn as_duration(self) -> Duration {
        match self {
            Timeout::For(duration) => duration,
            Timeout::Always => Self::FOREVER,
        }
    }
}

/// How long something may take: a [`Timeout`] that is some time.
pub(crate) fn time_limit(text: &str) -> Result<Timeout, String> {
    match text.parse()? {
        Timeout::For(Duration::ZERO) => {
            Err("nothing is done in no time: write a duration such as 5s, or always".to_owned())
        }
        limit => Ok(limit),
    }
}

impl FromStr for Timeout {
    type Err = String;

    /// `always`, or a whole number with `ms`, `s`, `m` or `h` behind it; `0`
    /// needs no unit.
    fn from_str(text: &str) -> Result<Self, String> {
        let error = || "write a duration such as 250ms, 5s, 1m, or always".to_owned();
        if text == "always" {
            return Ok(Timeout::Always);
        }
        if text == "0" {
            return Ok(Timeout::For(Duration::ZERO));
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| error())?;
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            _ => return Err(error()),
        };
        let total_ms = number.checked_mul(unit_ms).ok_or_else(error)?;
        Ok(Timeout::For(
            Duration::from_millis(total_ms).min(Self::FOREVER),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, ms) in [
            ("0", 0),
            ("0s", 0),
            ("250ms", 250),
            ("5s", 5000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                text.parse(),
                Ok(Timeout::For(Duration::from_millis(ms))),
                "{text}"
            );
        }
        assert_eq!("always".parse(), Ok(Timeout::Always));
        assert_eq!(time_limit("always"), Ok(Timeout::Always));
        assert!(time_limit("1ms").is_ok());
        assert!(time_limit("0").is_err() && time_limit("0s").is_err());
        for text in [
            "",
            "5",
            "-1",
            "-5s",
            "5 s",
            "1.5s",
            "s",
            "5sec",
            "Always",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(text.parse::<Timeout>().is_err(), "{text}");
        }
    }
}
