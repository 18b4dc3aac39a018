//! Looking for a job right after the last one, where that costs a system call.

/// Looks in vain after which most are left out: whoever asks waits for each answer.
const PATIENCE: u32 = 4;

/// One look is tried for so many jobs all the same, as times change.
const RARITY: u32 = 16;

/// Whether a look is worth it.
#[derive(Debug, Default)]
pub(crate) struct Glances {
    /// Looks in vain since the last one that was not.
    in_vain: u32,
    left_out: u32,
}

impl Glances {
    /// Whether to look now.
    pub(crate) fn is_due(&mut self) -> bool {
        if self.in_vain < PATIENCE {
            return true;
        }
        self.left_out = (self.left_out + 1) % RARITY;
        self.left_out == 0
    }

    /// What became of it.
    pub(crate) fn looked(&mut self, has_found: bool) {
        self.in_vain = match has_found {
            true => 0,
            false => self.in_vain.saturating_add(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_in_vain_become_rare_and_come_back_with_what_they_find() {
        let mut glances = Glances::default();
        let mut looks = |jobs: u32, has_found: bool| {
            let mut looks = 0;
            for _ in 0..jobs {
                if glances.is_due() {
                    glances.looked(has_found);
                    looks += 1;
                }
            }
            looks
        };
        assert_eq!(looks(100, true), 100);
        assert_eq!(looks(PATIENCE + 10 * RARITY, false), PATIENCE + 10);
        // The first that finds something.
        assert_eq!(looks(RARITY, true), 1);
        assert_eq!(looks(100, true), 100);
    }
}
