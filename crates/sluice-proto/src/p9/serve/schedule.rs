//! The requests of a connection that are under way: which run, which wait for
//! others, and which tags are taken.
//!
//! Requests run at the same time unless the protocol makes one depend on
//! another: whatever gives a fid a meaning or takes it away waits for the
//! requests before it that use that fid, and those behind it wait for it. A
//! Tflush waits until the request it is about is answered (flush(5)), a
//! Tversion until all are.

use std::collections::VecDeque;

/// Names a request while it is under way; never used again.
pub(super) type Ticket = u64;

/// What a request does with a fid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Uses it as it is.
    Use(u32),
    /// Gives it a meaning, changes that, or takes it away.
    Change(u32),
}

/// What a request depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claims {
    /// Fids.
    Fids([Option<Claim>; 2]),
    /// One request: it must be gone.
    After(Ticket),
    /// All requests: they must be gone.
    Everything,
}

/// How far a request is.
enum Stage<J> {
    /// Waits for others.
    Waiting(J),
    /// Waits for memory, and so does what depends on it.
    Starved(J),
    /// Can run, or runs.
    Running,
    /// Waits for a lock: nothing waits for it but what must see its answer.
    Parked,
    /// Has had its effect; the reply is being sent, or waited for.
    Done,
}

struct Entry<J> {
    ticket: Ticket,
    tag: u16,
    claims: Claims,
    stage: Stage<J>,
    is_flushed: bool,
    /// Memory that it may take, in bytes.
    bytes: usize,
}

/// The requests under way, in the order in which they came.
pub(super) struct Schedule<J> {
    entries: VecDeque<Entry<J>>,
    ready: VecDeque<(Ticket, J)>,
    next_ticket: Ticket,
    waiting: usize,
    starved: usize,
    bytes: usize,
}

/// What became of a request that is new.
pub(super) enum Admitted<J> {
    /// It can run at once.
    Run(Ticket, J),
    /// It waits for others, or for memory.
    Waiting,
}

/// What a Tflush meets.
pub(super) enum Flushed<J> {
    /// No such request.
    Unknown,
    /// It had not begun, and is gone.
    Removed(J),
    /// It is under way.
    Running(Ticket),
}

impl<J> Default for Schedule<J> {
    fn default() -> Self {
        Schedule {
            entries: VecDeque::new(),
            ready: VecDeque::new(),
            next_ticket: 1,
            waiting: 0,
            starved: 0,
            bytes: 0,
        }
    }
}

impl<J> Schedule<J> {
    /// Requests under way.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Memory that they may take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether `tag` names a request that has not been answered.
    pub(super) fn is_taken(&self, tag: u16) -> bool {
        let is_open = |entry: &Entry<J>| !matches!(entry.stage, Stage::Done);
        self.entries
            .iter()
            .any(|entry| entry.tag == tag && is_open(entry))
    }

    /// How many wait, for others or for somebody to run them, but not for memory.
    pub(super) fn waiting(&self) -> usize {
        self.waiting + self.ready.len()
    }

    /// Whether some wait for memory.
    pub(super) fn has_starved(&self) -> bool {
        self.starved > 0
    }

    /// Takes a request in that may take so many bytes of memory. `job` is told
    /// whether it has to wait.
    pub(super) fn admit(
        &mut self,
        tag: u16,
        claims: Claims,
        bytes: usize,
        job: impl FnOnce(bool) -> J,
    ) -> Admitted<J> {
        let is_blocked = self.is_blocked(self.entries.len(), claims);
        let job = job(is_blocked);
        if is_blocked {
            self.waiting += 1;
            self.push(tag, claims, bytes, Stage::Waiting(job));
            return Admitted::Waiting;
        }
        let ticket = self.push(tag, claims, bytes, Stage::Running);
        Admitted::Run(ticket, job)
    }

    /// Takes a request in for which there is no memory now.
    pub(super) fn admit_starved(&mut self, tag: u16, claims: Claims, bytes: usize, job: J) {
        self.starved += 1;
        self.push(tag, claims, bytes, Stage::Starved(job));
    }

    /// Goes on with those that wait for memory, in their order, as long as `feed` has
    /// some: one that has memory must not wait for one that has none.
    pub(super) fn feed(&mut self, mut feed: impl FnMut(&mut J) -> bool) {
        if self.starved == 0 {
            return;
        }
        for entry in &mut self.entries {
            let Stage::Starved(job) = &mut entry.stage else {
                continue;
            };
            if !feed(job) {
                break;
            }
            if let Stage::Starved(job) = std::mem::replace(&mut entry.stage, Stage::Running) {
                entry.stage = Stage::Waiting(job);
                self.starved -= 1;
                self.waiting += 1;
            }
        }
        self.collect();
    }

    fn push(&mut self, tag: u16, claims: Claims, bytes: usize, stage: Stage<J>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries.push_back(Entry {
            ticket,
            tag,
            claims,
            stage,
            is_flushed: false,
            bytes,
        });
        ticket
    }

    /// Takes back the latest request with this tag.
    pub(super) fn flush(&mut self, tag: u16) -> Flushed<J> {
        let found = self.entries.iter().rposition(|entry| entry.tag == tag);
        let Some((index, entry)) = found.and_then(|at| Some((at, self.entries.get_mut(at)?)))
        else {
            return Flushed::Unknown;
        };
        // A Tflush that waits has an answer to wait for itself.
        let can_go = !matches!(entry.claims, Claims::After(_));
        if can_go && let Some(job) = self.take_back(index) {
            self.collect();
            return Flushed::Removed(job);
        }
        match self.entries.get_mut(index) {
            Some(entry) => {
                entry.is_flushed = true;
                Flushed::Running(entry.ticket)
            }
            None => Flushed::Unknown,
        }
    }

    /// Takes a request out, if it has not begun.
    fn take_back(&mut self, index: usize) -> Option<J> {
        let count = match self.entries.get(index)?.stage {
            Stage::Waiting(_) => &mut self.waiting,
            Stage::Starved(_) => &mut self.starved,
            Stage::Running | Stage::Parked | Stage::Done => return None,
        };
        *count -= 1;
        let entry = self.entries.remove(index)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        match entry.stage {
            Stage::Waiting(job) | Stage::Starved(job) => Some(job),
            Stage::Running | Stage::Parked | Stage::Done => None,
        }
    }

    /// Whether the peer has taken it back.
    pub(super) fn is_flushed(&self, ticket: Ticket) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.ticket == ticket && entry.is_flushed)
    }

    /// A request waits for a lock, which may last. Whether others can run now.
    pub(super) fn park(&mut self, ticket: Ticket) -> bool {
        self.set_stage(ticket, Stage::Parked);
        self.collect()
    }

    /// The requests that wait for locks.
    pub(super) fn parked(&self) -> Vec<Ticket> {
        let is_parked = |it: &&Entry<J>| matches!(it.stage, Stage::Parked);
        let parked = self.entries.iter().filter(is_parked);
        parked.map(|entry| entry.ticket).collect()
    }

    /// Those of them that do so through `fid`.
    pub(super) fn parked_on(&self, fid: u32) -> Vec<Ticket> {
        let claims = Claims::Fids([Some(Claim::Use(fid)), None]);
        let is_on = |it: &&Entry<J>| it.claims == claims && matches!(it.stage, Stage::Parked);
        let parked = self.entries.iter().filter(is_on);
        parked.map(|entry| entry.ticket).collect()
    }

    /// A request has had its effect, and will be answered: its fids are free,
    /// and so is its tag, as soon as the peer knows. Whether others can run now.
    pub(super) fn release(&mut self, ticket: Ticket) -> bool {
        self.set_stage(ticket, Stage::Done);
        self.collect()
    }

    /// A request was answered, or will not be. Whether others can run now.
    pub(super) fn remove(&mut self, ticket: Ticket) -> bool {
        let found = self.entries.iter().position(|it| it.ticket == ticket);
        if let Some(entry) = found.and_then(|index| self.entries.remove(index)) {
            self.bytes = self.bytes.saturating_sub(entry.bytes);
        }
        self.collect()
    }

    /// A request that waited and can run now.
    pub(super) fn next_ready(&mut self) -> Option<(Ticket, J)> {
        self.ready.pop_front()
    }

    /// Takes out all that has not begun.
    pub(super) fn clear_waiting(&mut self) -> Vec<J> {
        let all = (0..self.entries.len()).rev();
        let mut jobs: Vec<J> = all.filter_map(|index| self.take_back(index)).collect();
        jobs.reverse();
        for (ticket, job) in std::mem::take(&mut self.ready) {
            self.remove(ticket);
            jobs.push(job);
        }
        jobs
    }

    fn set_stage(&mut self, ticket: Ticket, stage: Stage<J>) {
        let entry = self.entries.iter_mut().find(|it| it.ticket == ticket);
        if let Some(entry) = entry {
            entry.stage = stage;
        }
    }

    /// Moves what waits for nothing any more to `ready`.
    fn collect(&mut self) -> bool {
        if self.waiting == 0 {
            return false;
        }
        let before = self.ready.len();
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get(index) else {
                break;
            };
            if !matches!(entry.stage, Stage::Waiting(_)) || self.is_blocked(index, entry.claims) {
                continue;
            }
            if let Some(entry) = self.entries.get_mut(index)
                && let Stage::Waiting(job) = std::mem::replace(&mut entry.stage, Stage::Running)
            {
                self.waiting -= 1;
                self.ready.push_back((entry.ticket, job));
            }
        }
        self.ready.len() > before
    }

    /// Whether one of the first `count` requests stands in the way of `claims`.
    fn is_blocked(&self, count: usize, claims: Claims) -> bool {
        self.entries.iter().take(count).any(|earlier| match claims {
            Claims::After(ticket) => earlier.ticket == ticket,
            Claims::Everything => true,
            Claims::Fids(fids) => match earlier.stage {
                Stage::Waiting(_) | Stage::Starved(_) | Stage::Running => {
                    earlier.claims.stand_before(&fids)
                }
                Stage::Parked | Stage::Done => false,
            },
        })
    }
}

impl Claims {
    fn stand_before(&self, later: &[Option<Claim>; 2]) -> bool {
        match self {
            Claims::Everything => true,
            Claims::After(_) => false,
            Claims::Fids(mine) => mine.iter().flatten().any(|mine| {
                let mut others = later.iter().flatten();
                others.any(|other| mine.conflicts(*other))
            }),
        }
    }
}

impl Claim {
    fn conflicts(self, other: Claim) -> bool {
        match (self, other) {
            (Claim::Use(_), Claim::Use(_)) => false,
            (Claim::Use(a) | Claim::Change(a), Claim::Use(b) | Claim::Change(b)) => a == b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(fid: u32) -> Claims {
        Claims::Fids([Some(Claim::Use(fid)), None])
    }

    fn changes(fid: u32) -> Claims {
        Claims::Fids([Some(Claim::Change(fid)), None])
    }

    fn clones(fid: u32, newfid: u32) -> Claims {
        Claims::Fids([Some(Claim::Use(fid)), Some(Claim::Change(newfid))])
    }

    /// Takes a request in whose job is its tag; its ticket if it can run.
    fn admit(schedule: &mut Schedule<u16>, tag: u16, claims: Claims) -> Option<Ticket> {
        match schedule.admit(tag, claims, 10, |_| tag) {
            Admitted::Run(ticket, job) => {
                assert_eq!(job, tag);
                Some(ticket)
            }
            Admitted::Waiting => None,
        }
    }

    fn ready(schedule: &mut Schedule<u16>) -> Vec<(Ticket, u16)> {
        std::iter::from_fn(|| schedule.next_ready()).collect()
    }

    fn tags(schedule: &mut Schedule<u16>) -> Vec<u16> {
        ready(schedule).into_iter().map(|(_, tag)| tag).collect()
    }

    #[test]
    fn what_only_uses_a_fid_runs_at_once() {
        let mut schedule = Schedule::default();
        for tag in 0..32 {
            assert!(admit(&mut schedule, tag, uses(7)).is_some());
        }
        assert!(admit(&mut schedule, 32, clones(7, 8)).is_some());
        assert_eq!(schedule.len(), 33);
    }

    #[test]
    fn walk_open_read_clunk_run_in_order_and_the_reads_together() {
        let mut schedule = Schedule::default();
        let walk = admit(&mut schedule, 1, clones(0, 5)).unwrap();
        assert_eq!(admit(&mut schedule, 2, changes(5)), None);
        assert_eq!(admit(&mut schedule, 3, uses(5)), None);
        assert_eq!(admit(&mut schedule, 4, uses(5)), None);
        assert_eq!(admit(&mut schedule, 5, changes(5)), None);
        assert!(admit(&mut schedule, 6, uses(0)).is_some());
        assert!(schedule.release(walk));
        let open = ready(&mut schedule);
        assert_eq!(open.len(), 1);
        assert!(!schedule.remove(walk));
        assert!(schedule.release(open[0].0));
        let reads = ready(&mut schedule);
        assert_eq!([reads[0].1, reads[1].1], [3, 4]);
        assert!(!schedule.release(reads[0].0));
        assert!(schedule.release(reads[1].0));
        assert_eq!(tags(&mut schedule), [5]);
    }

    #[test]
    fn what_waits_keeps_later_ones_in_order() {
        let mut schedule = Schedule::default();
        let read = admit(&mut schedule, 1, uses(5)).unwrap();
        assert_eq!(admit(&mut schedule, 2, changes(5)), None);
        // It could run beside the read, but not before the change.
        assert_eq!(admit(&mut schedule, 3, uses(5)), None);
        schedule.remove(read);
        let change = ready(&mut schedule);
        assert_eq!(change[0].1, 2);
        schedule.remove(change[0].0);
        assert_eq!(tags(&mut schedule), [3]);
    }

    #[test]
    fn a_flush_comes_after_the_answer_and_flushes_of_it_after_that() {
        let mut schedule = Schedule::default();
        let read = admit(&mut schedule, 1, uses(5)).unwrap();
        let Flushed::Running(ticket) = schedule.flush(1) else {
            panic!("it runs");
        };
        assert_eq!(ticket, read);
        assert!(schedule.is_flushed(read));
        assert_eq!(admit(&mut schedule, 2, Claims::After(ticket)), None);
        let Flushed::Running(flush) = schedule.flush(2) else {
            panic!("a flush is not taken back");
        };
        assert_eq!(admit(&mut schedule, 3, Claims::After(flush)), None);
        assert!(!schedule.release(read), "the answer is only being sent");
        assert!(schedule.remove(read));
        let first = ready(&mut schedule);
        assert_eq!(first[0].1, 2);
        schedule.remove(first[0].0);
        assert_eq!(tags(&mut schedule), [3]);
    }

    #[test]
    fn what_has_not_begun_is_taken_out() {
        let mut schedule = Schedule::default();
        let walk = admit(&mut schedule, 1, clones(0, 5)).unwrap();
        assert_eq!(admit(&mut schedule, 2, changes(5)), None);
        assert_eq!(admit(&mut schedule, 3, uses(5)), None);
        assert!(matches!(schedule.flush(2), Flushed::Removed(2)));
        assert!(!schedule.is_taken(2));
        assert!(schedule.remove(walk));
        assert_eq!(tags(&mut schedule), [3]);
        assert!(matches!(schedule.flush(9), Flushed::Unknown));
    }

    #[test]
    fn a_tag_is_free_once_its_answer_is_on_its_way() {
        let mut schedule = Schedule::default();
        let first = admit(&mut schedule, 1, uses(5)).unwrap();
        assert!(schedule.is_taken(1));
        schedule.release(first);
        assert!(!schedule.is_taken(1));
        let second = admit(&mut schedule, 1, uses(5)).unwrap();
        assert!(matches!(schedule.flush(1), Flushed::Running(ticket) if ticket == second));
    }

    #[test]
    fn a_version_waits_for_all_and_all_wait_for_it() {
        let mut schedule = Schedule::default();
        let read = admit(&mut schedule, 1, uses(5)).unwrap();
        assert_eq!(admit(&mut schedule, 2, Claims::Everything), None);
        assert_eq!(admit(&mut schedule, 3, Claims::Fids([None, None])), None);
        assert!(!schedule.release(read));
        assert!(schedule.remove(read));
        let version = ready(&mut schedule);
        assert_eq!(version[0].1, 2);
        assert!(schedule.release(version[0].0));
        assert_eq!(tags(&mut schedule), [3]);
    }

    #[test]
    fn nothing_but_a_flush_waits_for_a_lock() {
        let mut schedule = Schedule::default();
        let lock = admit(&mut schedule, 1, uses(5)).unwrap();
        assert_eq!(admit(&mut schedule, 2, changes(5)), None);
        assert!(schedule.park(lock));
        assert_eq!(tags(&mut schedule), [2]);
        assert_eq!(schedule.parked_on(5), [lock]);
        assert_eq!(schedule.parked_on(6), []);
        assert!(schedule.is_taken(1));
        assert!(matches!(schedule.flush(1), Flushed::Running(ticket) if ticket == lock));
        assert_eq!(admit(&mut schedule, 3, Claims::After(lock)), None);
        assert!(schedule.remove(lock));
        assert_eq!(tags(&mut schedule), [3]);
    }

    #[test]
    fn what_has_no_memory_waits_for_it_and_others_do_not() {
        let mut schedule = Schedule::default();
        schedule.admit_starved(1, uses(5), 10, 1);
        schedule.admit_starved(2, uses(5), 10, 2);
        assert!(admit(&mut schedule, 3, uses(5)).is_some());
        assert_eq!(admit(&mut schedule, 4, changes(5)), None);
        schedule.feed(|_| false);
        assert_eq!(
            (tags(&mut schedule), schedule.has_starved()),
            (vec![], true)
        );
        // The first who gets none keeps those behind it from taking theirs.
        let mut asked = Vec::new();
        schedule.feed(|job| {
            asked.push(*job);
            *job == 1
        });
        assert_eq!((tags(&mut schedule), asked), (vec![1], vec![1, 2]));
        assert!(matches!(schedule.flush(2), Flushed::Removed(2)));
        assert!(!schedule.has_starved());
        assert_eq!(schedule.bytes(), 30);
    }

    #[test]
    fn what_got_its_memory_still_waits_for_others() {
        let mut schedule = Schedule::default();
        let open = admit(&mut schedule, 1, changes(5)).unwrap();
        schedule.admit_starved(2, uses(5), 10, 2);
        schedule.feed(|_| true);
        assert_eq!(tags(&mut schedule), []);
        assert!(schedule.remove(open));
        assert_eq!(tags(&mut schedule), [2]);
    }

    #[test]
    fn clearing_leaves_what_runs() {
        let mut schedule = Schedule::default();
        let walk = admit(&mut schedule, 1, clones(0, 5)).unwrap();
        admit(&mut schedule, 2, changes(5));
        admit(&mut schedule, 3, uses(5));
        schedule.admit_starved(4, uses(0), 10, 4);
        schedule.release(walk);
        assert_eq!(schedule.clear_waiting(), [3, 4, 2]);
        assert!(!schedule.has_starved());
        assert_eq!((schedule.len(), schedule.bytes()), (1, 10));
        assert!(!schedule.remove(walk));
        assert_eq!((schedule.len(), schedule.bytes()), (0, 0));
    }
}
