//! Medians, spreads, and what may be said about two of them.

/// Three quartiles of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// A quarter of the values lies below.
    pub lower: f64,
    /// Half of the values lies below.
    pub median: f64,
    /// A quarter of the values lies above.
    pub upper: f64,
}

impl Quartiles {
    /// Of `values`, in any order; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Quartiles {
            lower: quantile(&sorted, 0.25)?,
            median: quantile(&sorted, 0.5)?,
            upper: quantile(&sorted, 0.75)?,
        })
    }

    /// The same figure, as uncertain as both together: `other` is of the same
    /// thing, measured another time.
    pub fn widened_by(&self, other: &Self) -> Self {
        Quartiles {
            lower: self.lower.min(other.lower),
            median: self.median,
            upper: self.upper.max(other.upper),
        }
    }

    /// Whether the two ranges between the quartiles have a point in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.lower <= other.upper && other.lower <= self.upper
    }
}

/// What may be said about two figures where less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first is better, and the spreads are apart.
    Faster,
    /// The spreads overlap.
    Equal,
    /// The first is worse, and the spreads are apart.
    Slower,
}

impl Verdict {
    /// About `ours` against `theirs`.
    pub fn of(ours: &Quartiles, theirs: &Quartiles) -> Self {
        if ours.overlaps(theirs) {
            Verdict::Equal
        } else if ours.median < theirs.median {
            Verdict::Faster
        } else {
            Verdict::Slower
        }
    }
}

/// The value below which the share `q` (0 to 1) of `sorted` lies, with linear
/// interpolation between neighbours.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = sorted.get(position.floor() as usize)?;
    let above = sorted.get(position.ceil() as usize)?;
    Some(below + (above - below) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_do_not_depend_on_order() {
        let quartiles = Quartiles::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            quartiles,
            Quartiles {
                lower: 2.0,
                median: 3.0,
                upper: 4.0
            }
        );
    }

    #[test]
    fn what_differs_from_itself_is_equal_to_what_lies_between() {
        let figure = |lower, median, upper| Quartiles {
            lower,
            median,
            upper,
        };
        let (once, again) = (figure(4.0, 5.0, 6.0), figure(8.0, 9.0, 10.0));
        let peer = figure(7.0, 7.0, 7.5);
        assert_eq!(Verdict::of(&once, &peer), Verdict::Faster);
        let both = once.widened_by(&again);
        assert_eq!((both.lower, both.median, both.upper), (4.0, 5.0, 10.0));
        assert_eq!(Verdict::of(&both, &peer), Verdict::Equal);
    }

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[10.0, 20.0], 0.25), Some(12.5));
        assert_eq!(quantile(&[7.0], 0.75), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(Quartiles::of(&[]), None);
    }

    #[test]
    fn a_verdict_needs_spreads_that_are_apart() {
        let at = |lower, median, upper| Quartiles {
            lower,
            median,
            upper,
        };
        let ours = at(9.0, 10.0, 11.0);
        assert_eq!(Verdict::of(&ours, &at(12.0, 13.0, 14.0)), Verdict::Faster);
        assert_eq!(Verdict::of(&ours, &at(6.0, 7.0, 8.0)), Verdict::Slower);
        assert_eq!(Verdict::of(&ours, &at(11.0, 13.0, 14.0)), Verdict::Equal);
        assert_eq!(Verdict::of(&ours, &at(5.0, 20.0, 30.0)), Verdict::Equal);
    }
}
