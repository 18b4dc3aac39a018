//! Where something is in a text, for people.

/// Both count from 1; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// Of the byte at `offset`; past the end, of the end.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.char_indices().take_while(|&(at, _)| at < offset);
        before.fold(
            Place { line: 1, column: 1 },
            |place, (_, character)| match character {
                '\n' => Place {
                    line: place.line + 1,
                    column: 1,
                },
                _ => Place {
                    column: place.column + 1,
                    ..place
                },
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn lines_and_characters_count_from_1() {
        for (offset, line, column) in [(0, 1, 1), (3, 1, 3), (4, 2, 1), (6, 2, 3), (99, 2, 3)] {
            assert_eq!(Place::of("aé\nbc", offset), Place { line, column });
        }
    }
}
