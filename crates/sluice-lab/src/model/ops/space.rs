//! Space, layout, and copies within the tree.

use super::Call;
use crate::model::content::{PAGE, SIZE_MAX};
use sluice_vfs::{
    CopyRange, Errno, FallocateMode, FileType, HandleId, NodeId, OpenFlags, Result, Stamp, Whence,
    Written,
};
use std::ops::Range;

/// Bytes that one step of a copy moves.
const COPY_STEP: u64 = 1 << 20;

impl Call<'_> {
    pub(in crate::model) fn fallocate(
        &mut self,
        node: NodeId,
        handle: Option<HandleId>,
        mode: FallocateMode,
        range: Range<u64>,
    ) -> Result<Stamp> {
        if range.is_empty() || range.start > SIZE_MAX {
            return Err(Errno::EINVAL);
        }
        check_mode(mode)?;
        let (ino, _) = self.opened(node, handle, OpenFlags::WRITE)?;
        if range.end > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let data = self.state.tree.with_space(ino, |inode, free| {
            let content = inode.content_mut()?;
            let old_size = content.size();
            let keeps_size = mode.contains(FallocateMode::KEEP_SIZE);
            if mode.contains(FallocateMode::PUNCH_HOLE) {
                content.punch(range.clone());
            } else if mode.contains(FallocateMode::COLLAPSE_RANGE) {
                check_aligned(&range)?;
                if range.end >= old_size {
                    return Err(Errno::EINVAL);
                }
                content.collapse(range.clone());
                return Ok(range.start..SIZE_MAX);
            } else if mode.contains(FallocateMode::INSERT_RANGE) {
                check_aligned(&range)?;
                if range.start >= old_size {
                    return Err(Errno::EINVAL);
                }
                if range.end - range.start > SIZE_MAX - old_size {
                    return Err(Errno::EFBIG);
                }
                content.insert(range.clone());
                return Ok(range.start..SIZE_MAX);
            } else {
                if content.missing_pages(&range) > free {
                    return Err(Errno::ENOSPC);
                }
                content.reserve(&range);
                if mode.contains(FallocateMode::ZERO_RANGE) {
                    content.zero(range.clone());
                }
                if !keeps_size {
                    content.grow_to(range.end);
                }
            }
            Ok(range.clone())
        })?;
        if self.kills_unasked() {
            self.state.tree.get_mut(ino)?.kill_suidgid();
        }
        self.changed(ino, Some(data))
    }

    pub(in crate::model) fn lseek(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        whence: Whence,
    ) -> Result<u64> {
        let content = self.state.tree.get(self.target(node, handle)?)?.content()?;
        let size = content.size();
        if whence == Whence::End {
            let end = size.checked_add_signed(offset.cast_signed());
            return end.filter(|&at| at <= SIZE_MAX).ok_or(Errno::EINVAL);
        }
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        match whence {
            Whence::Data => content.next_data(offset).ok_or(Errno::ENXIO),
            Whence::Hole | Whence::End => Ok(content.next_hole(offset)),
        }
    }

    pub(in crate::model) fn copy_range(&mut self, copy: &CopyRange) -> Result<Written> {
        let from = self.copy_side(copy.from.node, copy.from.handle, OpenFlags::READ)?;
        let to = self.copy_side(copy.to.node, copy.to.handle, OpenFlags::WRITE)?;
        let (at_from, at_to) = (copy.from.offset, copy.to.offset);
        for offset in [at_from, at_to] {
            if offset > SIZE_MAX {
                return Err(Errno::EINVAL);
            }
            if offset
                .checked_add(copy.len)
                .is_none_or(|end| end > SIZE_MAX)
            {
                return Err(Errno::EOVERFLOW);
            }
        }
        let size = self.state.tree.get(from)?.content()?.size();
        let len = copy.len.min(size.saturating_sub(at_from));
        let overlaps = at_from < at_to + len && at_to < at_from + len;
        if from == to && overlaps {
            return Err(Errno::EINVAL);
        }
        let mut done = Written {
            len: 0,
            stamp: self.state.tree.get(to)?.stamp,
        };
        while (done.len as u64) < len {
            if self.ctx.is_cancelled() {
                return partial(done, Errno::EINTR);
            }
            let moved = done.len as u64;
            let step = COPY_STEP.min(len - moved);
            let bytes = self
                .state
                .tree
                .get(from)?
                .content()?
                .read(at_from + moved, step);
            let kills = self.kills_unasked();
            match self.write_at(to, at_to + moved, &bytes, kills) {
                Ok(written) => {
                    done.len += written.len;
                    done.stamp = written.stamp;
                }
                Err(error) => return partial(done, error),
            }
        }
        Ok(done)
    }

    /// Peers don't ask for set-id bits to go with these, so the caller decides.
    fn kills_unasked(&self) -> bool {
        self.ctx.caller.uid != 0
    }

    /// One side of a copy: a regular file, opened for what is needed.
    fn copy_side(&self, node: NodeId, handle: HandleId, needed: OpenFlags) -> Result<u64> {
        let ino = self.handle(node, handle)?.ino;
        match self.state.tree.get(ino)?.file_type {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let (_, flags) = self.opened(node, Some(handle), needed)?;
        if needed == OpenFlags::WRITE && flags.contains(OpenFlags::APPEND) {
            return Err(Errno::EBADF);
        }
        Ok(ino)
    }
}

/// The combinations that fallocate(2) knows.
fn check_mode(mode: FallocateMode) -> Result<()> {
    type M = FallocateMode;
    let is_known = [
        M::empty(),
        M::KEEP_SIZE,
        M::PUNCH_HOLE | M::KEEP_SIZE,
        M::COLLAPSE_RANGE,
        M::ZERO_RANGE,
        M::ZERO_RANGE | M::KEEP_SIZE,
        M::INSERT_RANGE,
        M::UNSHARE_RANGE,
        M::UNSHARE_RANGE | M::KEEP_SIZE,
    ]
    .contains(&mode);
    if is_known {
        Ok(())
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

fn check_aligned(range: &Range<u64>) -> Result<()> {
    if range.start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// What was copied before an error counts; the error only if that is nothing.
fn partial(done: Written, error: Errno) -> Result<Written> {
    if done.len > 0 { Ok(done) } else { Err(error) }
}
