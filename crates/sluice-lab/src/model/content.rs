//! Sparse content of a regular file, in pages.

use std::collections::BTreeMap;
use std::ops::Range;

/// Unit of allocation in bytes; also what fallocate's shifts must align to.
pub(super) const PAGE: u64 = 4096;

/// Largest file in bytes, Linux's `MAX_LFS_FILESIZE`.
pub(super) const SIZE_MAX: u64 = i64::MAX as u64;

enum Page {
    /// Allocated, never written: reads as zeros and counts as a hole.
    Reserved,
    Data(Box<[u8; PAGE as usize]>),
}

/// The bytes of a file. Offsets are at most [`SIZE_MAX`]; callers check.
#[derive(Default)]
pub(super) struct Content {
    size: u64,
    pages: BTreeMap<u64, Page>,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Pages that take space.
    pub(super) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.size);
        let mut bytes = Vec::new();
        if offset >= end {
            return bytes;
        }
        for (index, within) in pieces(offset..end) {
            match self.pages.get(&index) {
                Some(Page::Data(page)) => bytes.extend_from_slice(&page[within]),
                _ => bytes.resize(bytes.len() + within.len(), 0),
            }
        }
        bytes
    }

    /// Writes as much of `bytes` as `new_pages` more pages allow; returns how much.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], mut new_pages: u64) -> u64 {
        let mut rest = bytes;
        for (index, within) in pieces(offset..offset + bytes.len() as u64) {
            if !self.pages.contains_key(&index) {
                if new_pages == 0 {
                    break;
                }
                new_pages -= 1;
            }
            let (head, tail) = rest.split_at(within.len());
            self.data_page(index)[within].copy_from_slice(head);
            rest = tail;
        }
        let written = (bytes.len() - rest.len()) as u64;
        if written > 0 {
            self.size = self.size.max(offset + written);
        }
        written
    }

    pub(super) fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.zero(size..self.size);
            self.pages.split_off(&size.div_ceil(PAGE));
        }
        self.size = size;
    }

    /// Pages that [`Content::reserve`] would add.
    pub(super) fn missing_pages(&self, range: &Range<u64>) -> u64 {
        let pages = page_span(range);
        (pages.end - pages.start) - self.pages.range(pages).count() as u64
    }

    /// Gives every page of the range space. The caller has checked that there
    /// is room for [`Content::missing_pages`].
    pub(super) fn reserve(&mut self, range: &Range<u64>) {
        for index in page_span(range) {
            self.pages.entry(index).or_insert(Page::Reserved);
        }
    }

    pub(super) fn grow_to(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// Makes the range read as zeros; whole pages lose their data, not their space.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        let touched: Vec<u64> = self
            .pages
            .range(page_span(&range))
            .map(|(&index, _)| index)
            .collect();
        for index in touched {
            let within = overlap(index, &range);
            match self.pages.get_mut(&index) {
                Some(page) if within.len() == PAGE as usize => *page = Page::Reserved,
                Some(Page::Data(page)) => page[within].fill(0),
                _ => {}
            }
        }
    }

    /// As [`Content::zero`], and gives the space of whole pages back.
    pub(super) fn punch(&mut self, range: Range<u64>) {
        self.zero(range.clone());
        let whole = range.start.div_ceil(PAGE)..range.end / PAGE;
        self.pages.retain(|index, _| !whole.contains(index));
    }

    /// Cuts a page-aligned range out.
    pub(super) fn collapse(&mut self, range: Range<u64>) {
        let (from, to) = (range.end / PAGE, range.start / PAGE);
        let after = self.pages.split_off(&from);
        self.pages.split_off(&to);
        self.pages.extend(
            after
                .into_iter()
                .map(|(index, page)| (index - from + to, page)),
        );
        self.size -= range.end - range.start;
    }

    /// Makes a hole of a page-aligned range by shifting what follows.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        let len = range.end - range.start;
        let after = self.pages.split_off(&(range.start / PAGE));
        self.pages.extend(
            after
                .into_iter()
                .map(|(index, page)| (index + len / PAGE, page)),
        );
        self.size += len;
    }

    /// First byte of data at or after `offset`, which lies inside the file.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        self.pages
            .range(offset / PAGE..)
            .find(|(_, page)| matches!(page, Page::Data(_)))
            .map(|(&index, _)| offset.max(index * PAGE))
            .filter(|&at| at < self.size)
    }

    /// First byte of a hole at or after `offset`; the end of the file is one.
    pub(super) fn next_hole(&self, offset: u64) -> u64 {
        let mut index = offset / PAGE;
        while let Some(Page::Data(_)) = self.pages.get(&index) {
            index += 1;
        }
        offset.max(index.saturating_mul(PAGE)).min(self.size)
    }

    fn data_page(&mut self, index: u64) -> &mut [u8; PAGE as usize] {
        let page = self.pages.entry(index).or_insert(Page::Reserved);
        if let Page::Reserved = page {
            *page = Page::Data(Box::new([0; PAGE as usize]));
        }
        match page {
            Page::Data(bytes) => bytes,
            Page::Reserved => unreachable!("it was filled above"),
        }
    }
}

/// The pages that a range touches.
fn page_span(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE).max(range.start / PAGE)
}

/// The part of page `index` that lies in `range`, relative to the page.
fn overlap(index: u64, range: &Range<u64>) -> Range<usize> {
    let start = index * PAGE;
    let from = range.start.max(start) - start;
    let to = range.end.min(start + PAGE).max(start) - start;
    from as usize..to as usize
}

/// A range page by page: page index and the part of the page.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    page_span(&range).map(move |index| (index, overlap(index, &range)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_read_as_zeros_and_take_no_space() {
        let mut content = Content::default();
        assert_eq!(content.write(3 * PAGE - 1, b"ab", u64::MAX), 2);
        assert_eq!(content.size(), 3 * PAGE + 1);
        assert_eq!(content.page_count(), 2);
        assert_eq!(content.read(3 * PAGE - 3, 100), b"\0\0ab");
        assert_eq!(content.read(3 * PAGE + 2, 100), b"");
        assert_eq!(content.next_data(0), Some(2 * PAGE));
        assert_eq!(content.next_hole(0), 0);
        assert_eq!(content.next_hole(2 * PAGE), 3 * PAGE + 1);
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let mut content = Content::default();
        content.write(0, &[7; 10], u64::MAX);
        content.truncate(4);
        content.truncate(8);
        assert_eq!(content.read(0, 10), [7, 7, 7, 7, 0, 0, 0, 0]);
        content.truncate(0);
        assert_eq!(content.page_count(), 0);
    }

    #[test]
    fn the_last_bytes_of_the_largest_file_can_be_written() {
        let mut content = Content::default();
        assert_eq!(content.write(SIZE_MAX - 2, b"xy", u64::MAX), 2);
        assert_eq!(content.size(), SIZE_MAX);
        assert_eq!(content.read(SIZE_MAX - 3, 100), b"\0xy");
        // Its last page is not whole: it stays, with nothing in it.
        content.punch(0..SIZE_MAX);
        assert_eq!(content.read(SIZE_MAX - 3, 100), b"\0\0\0");
        assert_eq!(content.page_count(), 1);
    }

    #[test]
    fn shifting_moves_whole_pages() {
        let mut content = Content::default();
        for index in 0..4u8 {
            content.write(
                u64::from(index) * PAGE,
                &[index + 1; PAGE as usize],
                u64::MAX,
            );
        }
        content.collapse(PAGE..2 * PAGE);
        assert_eq!(content.size(), 3 * PAGE);
        assert_eq!(content.read(PAGE, 1), [3]);
        content.insert(PAGE..2 * PAGE);
        assert_eq!(content.read(PAGE, 1), [0]);
        assert_eq!(content.read(2 * PAGE, 1), [3]);
        assert_eq!(content.read(3 * PAGE, 1), [4]);
        assert_eq!(content.page_count(), 3);
    }

    #[test]
    fn writing_stops_where_space_ends() {
        let mut content = Content::default();
        assert_eq!(content.write(0, &[1; 3 * PAGE as usize], 2), 2 * PAGE);
        assert_eq!(content.size(), 2 * PAGE);
        assert_eq!(content.write(PAGE, &[2; 10], 0), 10);
    }
}
