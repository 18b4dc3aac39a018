//! The requests of a connection that wait for replies, and what may be believed
//! of a reply. No I/O, and no clock.

use crate::error::{Error, Lost, Result, Violation};
use sluice_proto::p9::wire::{Dialect, HEADER_LEN, Header, NOTAG, Reply, Type, decode_reply};
use std::collections::VecDeque;

/// Longest reply that is no payload, in bytes: an Rstat takes up to 64 KiB.
const MESSAGE_MAX: usize = (64 << 10) + 64;

/// Types of Rlerror and Rerror.
const FAILURES: [u8; 2] = [7, 107];

/// What becomes of a reply.
#[derive(Debug)]
pub(crate) enum Want {
    /// Whoever asked waits for a message without payload.
    Message,
    /// Whoever asked waits with buffers for up to so many bytes of payload.
    InPlace(usize),
    /// As much payload as this holds goes there.
    Owned(Vec<u8>),
    /// Nobody waits. A fid that the request gives back is free then.
    Nothing(Option<u32>),
    /// Nobody waits for a Tflush itself. If it is answered before the request
    /// with this tag is, that one got no answer and ends with this error.
    CallOff(u16, Error),
}

impl Want {
    /// Most bytes of payload.
    fn room(&self) -> usize {
        match self {
            Want::Message => 0,
            Want::InPlace(room) => *room,
            Want::Owned(buf) => buf.len(),
            Want::Nothing(_) | Want::CallOff(..) => usize::MAX,
        }
    }
}

/// A reply that is no error.
#[derive(Debug)]
pub(crate) struct Answer {
    /// All but the payload.
    message: Vec<u8>,
    dialect: Dialect,
    /// Bytes of payload that came.
    pub(crate) payload_len: usize,
    /// The payload, for [`Want::Owned`]: its first `payload_len` bytes.
    pub(crate) data: Vec<u8>,
}

impl Answer {
    /// The reply. It was decoded before, so it can be decoded.
    ///
    /// # Errors
    /// None, for what came out of [`Requests::take`].
    pub(crate) fn get(&self) -> Result<Reply<'_>> {
        let decoded = decode_reply(&self.message, self.payload_len, self.dialect);
        match decoded.map_err(Violation::from)?.result {
            Ok(reply) => Ok(reply),
            Err(failure) => Err(Error::refusal(&failure, self.dialect)),
        }
    }
}

/// What a reply's header says is coming.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) tag: u16,
    /// Bytes from the start of the message that are not payload.
    pub(crate) prefix_len: usize,
    /// Bytes of payload behind them.
    pub(crate) payload_len: usize,
    /// It is small enough to be copied.
    pub(crate) is_copied: bool,
    pub(crate) place: Place,
}

/// Where a payload goes.
#[derive(Debug)]
pub(crate) enum Place {
    /// To whoever asked.
    Caller,
    /// Here.
    Owned(Vec<u8>),
    /// Nowhere: there is none, nobody wants it, or it is more than was asked for.
    Nowhere,
}

/// What kind of payload may be on its way.
#[derive(Clone, Copy, Debug, Default)]
enum Awaits {
    #[default]
    None,
    /// Up to so many bytes, which may come with other messages and are copied.
    Small(usize),
    /// One that has its place.
    Large,
}

struct Slot<W> {
    kind: Type,
    want: Want,
    /// Most bytes of payload.
    room: usize,
    /// As what it counts.
    awaits: Awaits,
    owner: W,
    answer: Option<Result<Answer>>,
}

/// The requests under way; `W` says who waits for one.
pub(crate) struct Requests<W> {
    /// By tag; more than `max` once so many wait to be taken.
    slots: Vec<Option<Slot<W>>>,
    /// Tags that can be used; the one that was free longest comes next, so that a
    /// reply that comes twice is not taken for another's.
    free: VecDeque<u16>,
    /// Most requests without an answer.
    max: usize,
    /// So many there are, Tflush not counted.
    unanswered: usize,
    /// What a Tflush under way is about, once for each: such a tag stays in use until
    /// that is answered (flush(5)).
    flushed: Vec<u16>,
    dialect: Dialect,
    msize: u32,
    /// Requests that wait for a large payload.
    large: usize,
    /// Bytes of payload that others wait for, at most.
    small_payloads: usize,
    threshold: usize,
}

impl<W: Clone> Requests<W> {
    /// Up to `max` without an answer at a time. Those whose answers wait to be taken
    /// do not count: whoever has some may wait for room, and all do for answers.
    /// Payloads from `threshold` bytes on are large.
    pub(crate) fn new(dialect: Dialect, msize: u32, max: u16, threshold: usize) -> Self {
        Requests {
            slots: std::iter::repeat_with(|| None).take(max.into()).collect(),
            free: (0..max).collect(),
            max: max.into(),
            unanswered: 0,
            flushed: Vec::new(),
            dialect,
            msize,
            large: 0,
            small_payloads: 0,
            threshold,
        }
    }

    /// Whether `count` more requests can be sent, besides any Tflush.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        let tags = self.free.len() + (usize::from(NOTAG) - self.slots.len());
        // One is left for that.
        tags > count && self.unanswered + count <= self.max
    }

    /// Bytes that may be on their way, with so many in a usual reply besides its
    /// payload; none if a large payload may be among them, which has its place
    /// elsewhere.
    pub(crate) fn small_replies(&self, usual: usize) -> Option<usize> {
        let under_way = self.unanswered + self.flushed.len();
        (self.large == 0).then(|| under_way * usual + self.small_payloads)
    }

    /// Whether nothing else is under way than this request, which waits for a large
    /// payload.
    pub(crate) fn is_lone(&self, tag: u16) -> bool {
        let under_way = self.unanswered + self.flushed.len();
        let slot = self.slots.get(usize::from(tag)).and_then(Option::as_ref);
        let is_large = |slot: &Slot<W>| {
            slot.answer.is_none()
                && matches!((&slot.want, slot.awaits), (Want::InPlace(_), Awaits::Large))
        };
        under_way == 1 && slot.is_some_and(is_large)
    }

    /// A request is about to be sent; its tag. `None` if there is no room for it.
    pub(crate) fn begin(&mut self, kind: Type, want: Want, owner: W) -> Option<u16> {
        let tag = self.free_tag(counted(kind))?;
        if let Want::CallOff(oldtag, _) = want {
            self.flushed.push(oldtag);
        }
        self.unanswered += counted(kind);
        let room = want.room();
        let awaits = match room {
            0 | usize::MAX => Awaits::None,
            _ if room >= self.threshold => Awaits::Large,
            _ => Awaits::Small(room),
        };
        match awaits {
            Awaits::None => {}
            Awaits::Small(len) => self.small_payloads += len,
            Awaits::Large => self.large += 1,
        }
        let slot = self.slots.get_mut(usize::from(tag))?;
        *slot = Some(Slot {
            kind,
            want,
            room,
            awaits,
            owner,
            answer: None,
        });
        Some(tag)
    }

    fn free_tag(&mut self, count: usize) -> Option<u16> {
        if !self.has_room(count) {
            return None;
        }
        self.free.pop_front().or_else(|| {
            let tag = u16::try_from(self.slots.len()).ok();
            let tag = tag.filter(|tag| *tag != NOTAG)?;
            self.slots.push(None);
            Some(tag)
        })
    }

    /// A request was never sent.
    pub(crate) fn cancel(&mut self, tag: u16) {
        self.remove(tag);
    }

    /// Someone else waits for it now.
    pub(crate) fn set_owner(&mut self, tag: u16, owner: W) {
        if let Some(slot) = self.slot_mut(tag) {
            slot.owner = owner;
        }
    }

    /// Who waits for it.
    pub(crate) fn owner(&self, tag: u16) -> Option<&W> {
        self.slots
            .get(usize::from(tag))?
            .as_ref()
            .map(|slot| &slot.owner)
    }

    /// Whether it has no answer yet.
    pub(crate) fn is_unanswered(&self, tag: u16) -> bool {
        let slot = self.slots.get(usize::from(tag)).and_then(Option::as_ref);
        slot.is_some_and(|slot| slot.answer.is_none())
    }

    /// Those who wait for replies.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &W> {
        self.slots.iter().flatten().map(|slot| &slot.owner)
    }

    /// Nobody waits for it any more.
    pub(crate) fn abandon(&mut self, tag: u16) {
        let Some(slot) = self.slot_mut(tag) else {
            return;
        };
        if slot.answer.is_some() {
            return drop(self.remove(tag));
        }
        slot.want = Want::Nothing(None);
        let awaited = std::mem::take(&mut slot.awaits);
        self.await_no_more(awaited);
    }

    /// A message begins.
    ///
    /// # Errors
    /// It cannot be the reply to any request: nothing that follows can be
    /// trusted.
    pub(crate) fn arrives(&mut self, header: &Header) -> std::result::Result<Incoming, Lost> {
        let size = header.size as usize;
        if size < HEADER_LEN || header.size > self.msize {
            return Err(Violation::Size(header.size).into());
        }
        let is_failure = FAILURES.contains(&header.kind);
        let slot = self.slots.get_mut(usize::from(header.tag));
        let slot = slot.and_then(Option::as_mut);
        let slot = slot.filter(|slot| slot.answer.is_none());
        let slot = slot.ok_or(Violation::Tag(header.tag))?;
        if !is_failure && header.kind != slot.kind as u8 | 1 {
            let (asked, got) = (slot.kind, header.kind);
            return Err(Violation::Kind { asked, got }.into());
        }
        let prefix_len = header.prefix_len();
        if prefix_len > MESSAGE_MAX {
            return Err(Violation::Size(header.size).into());
        }
        let payload_len = size - prefix_len;
        let place = match &mut slot.want {
            _ if payload_len > slot.room => Place::Nowhere,
            Want::InPlace(_) if payload_len > 0 => Place::Caller,
            Want::Owned(buf) => Place::Owned(std::mem::take(buf)),
            _ => Place::Nowhere,
        };
        Ok(Incoming {
            tag: header.tag,
            prefix_len,
            payload_len,
            is_copied: matches!(slot.awaits, Awaits::Small(_)),
            place,
        })
    }

    /// Whether somebody still waits with buffers.
    pub(crate) fn is_in_place(&self, tag: u16) -> bool {
        let slot = self.slots.get(usize::from(tag)).and_then(Option::as_ref);
        slot.is_some_and(|slot| matches!(slot.want, Want::InPlace(_)))
    }

    /// A message is complete: `message` is all of it but the payload. Whoever
    /// is to hear of it, and the fid that is free now.
    pub(crate) fn finish(
        &mut self,
        tag: u16,
        message: &[u8],
        payload_len: usize,
        data: Vec<u8>,
    ) -> (Option<W>, Option<u32>) {
        let dialect = self.dialect;
        let Some(slot) = self.slot_mut(tag) else {
            return (None, None);
        };
        match slot.want {
            Want::Nothing(fid) => {
                self.remove(tag);
                return (None, fid);
            }
            Want::CallOff(oldtag, ref error) => {
                let error = error.clone();
                // First, while that one keeps its tag.
                let owner = self.call_off(oldtag, error);
                self.remove(tag);
                return (owner, None);
            }
            Want::Message | Want::InPlace(_) | Want::Owned(_) => {}
        }
        let asked = slot.room;
        let owner = slot.owner.clone();
        self.settle(
            tag,
            match decode_reply(message, payload_len, dialect) {
                Err(why) => Err(Violation::from(why).into()),
                Ok(_) if payload_len > asked => Err(Violation::Excess {
                    what: "bytes",
                    asked: asked as u64,
                    got: payload_len as u64,
                }
                .into()),
                Ok(decoded) => match decoded.result {
                    Err(failure) => Err(Error::refusal(&failure, dialect)),
                    Ok(_) => Ok(Answer {
                        message: message.to_vec(),
                        dialect,
                        payload_len,
                        data,
                    }),
                },
            },
        );
        (Some(owner), None)
    }

    fn settle(&mut self, tag: u16, answer: Result<Answer>) {
        if let Some(slot) = self.slot_mut(tag) {
            slot.answer = Some(answer);
            let (kind, awaited) = (slot.kind, std::mem::take(&mut slot.awaits));
            self.unanswered -= counted(kind);
            self.await_no_more(awaited);
        }
    }

    /// No answer comes any more; whoever waits for it.
    fn call_off(&mut self, tag: u16, error: Error) -> Option<W> {
        let slot = self.slot_mut(tag).filter(|slot| slot.answer.is_none())?;
        let owner = slot.owner.clone();
        match slot.want {
            Want::Nothing(_) => drop(self.remove(tag)),
            _ => self.settle(tag, Err(error)),
        }
        Some(owner)
    }

    /// The answer, once.
    pub(crate) fn take(&mut self, tag: u16) -> Option<Result<Answer>> {
        self.slot_mut(tag)?.answer.as_ref()?;
        self.remove(tag)?.answer
    }

    fn slot_mut(&mut self, tag: u16) -> Option<&mut Slot<W>> {
        self.slots.get_mut(usize::from(tag))?.as_mut()
    }

    fn remove(&mut self, tag: u16) -> Option<Slot<W>> {
        let slot = self.slots.get_mut(usize::from(tag))?.take()?;
        self.await_no_more(slot.awaits);
        if slot.answer.is_none() {
            self.unanswered -= counted(slot.kind);
        }
        self.give_back_tag(tag);
        if let Want::CallOff(oldtag, _) = slot.want {
            let at = self.flushed.iter().position(|it| *it == oldtag);
            at.map(|at| self.flushed.swap_remove(at));
            self.give_back_tag(oldtag);
        }
        Some(slot)
    }

    /// A tag is free, unless a request or a Tflush still needs it.
    fn give_back_tag(&mut self, tag: u16) {
        let slot = self.slots.get(usize::from(tag));
        let is_unused = slot.is_some_and(Option::is_none);
        if is_unused && !self.flushed.contains(&tag) {
            self.free.push_back(tag);
        }
    }

    fn await_no_more(&mut self, awaited: Awaits) {
        match awaited {
            Awaits::None => {}
            Awaits::Small(len) => self.small_payloads -= len,
            Awaits::Large => self.large -= 1,
        }
    }
}

/// What a request takes of the room for requests: a Tflush nothing, or one that
/// hangs could not be taken back once there are too many.
fn counted(kind: Type) -> usize {
    usize::from(kind != Type::Flush)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_proto::p9::wire::{Payload, encode_reply};
    use sluice_vfs::Errno;

    fn requests() -> Requests<()> {
        Requests::new(Dialect::Linux, 8192, 4, 1024)
    }

    fn rread(tag: u16, len: usize) -> Vec<u8> {
        let mut buf = vec![0; 64];
        let data = Payload { len };
        let end = encode_reply(tag, &Reply::Read { data }, Dialect::Linux, &mut buf).unwrap();
        buf.truncate(end);
        buf
    }

    /// An answer without a body.
    fn answer(requests: &mut Requests<()>, kind: Type, tag: u16) {
        let mut message = vec![7, 0, 0, 0, kind as u8 | 1];
        message.extend(tag.to_le_bytes());
        requests.arrives(&Header::peek(&message).unwrap()).unwrap();
        requests.finish(tag, &message, 0, Vec::new());
    }

    #[test]
    fn an_answer_makes_room_and_keeps_its_tag_until_it_is_taken() {
        let mut requests = requests();
        let begin = |requests: &mut Requests<()>| requests.begin(Type::Clunk, Want::Message, ());
        let tags: Vec<_> = std::iter::from_fn(|| begin(&mut requests)).collect();
        assert_eq!(tags, [0, 1, 2, 3]);
        answer(&mut requests, Type::Clunk, 2);
        let again = Header::peek(&[7, 0, 0, 0, 121, 2, 0]).unwrap();
        let again = requests.arrives(&again).unwrap_err();
        assert_eq!(again, Lost::Violation(Violation::Tag(2)));
        assert!(requests.has_room(1) && !requests.has_room(2));
        assert_eq!(begin(&mut requests), Some(4));
        assert_eq!(begin(&mut requests), None);
        assert!(requests.take(2).unwrap().is_ok());
        assert!(requests.take(2).is_none());
        assert_eq!(begin(&mut requests), None);
        answer(&mut requests, Type::Clunk, 3);
        assert_eq!(begin(&mut requests), Some(2));
    }

    /// flush(5): "the client must wait until it gets the Rflush".
    #[test]
    fn what_is_taken_back_keeps_its_tag_until_the_rflush() {
        let mut requests = requests();
        for _ in 0..4 {
            requests.begin(Type::Clunk, Want::Message, ());
        }
        // For which there is always room.
        let want = Want::CallOff(1, Errno::EINTR.into());
        let flush = requests.begin(Type::Flush, want, ()).unwrap();
        answer(&mut requests, Type::Clunk, 1);
        assert!(requests.take(1).unwrap().is_ok());
        assert_eq!(requests.begin(Type::Clunk, Want::Message, ()), Some(5));
        answer(&mut requests, Type::Flush, flush);
        answer(&mut requests, Type::Clunk, 0);
        assert!(requests.take(0).unwrap().is_ok());
        let reused = requests.begin(Type::Clunk, Want::Message, ()).unwrap();
        assert!([1, flush].contains(&reused), "{reused}");
    }

    #[test]
    fn what_is_given_up_goes_nowhere_and_its_fid_is_free_when_it_came() {
        let mut requests = requests();
        let read = requests.begin(Type::Read, Want::InPlace(4096), ()).unwrap();
        let clunk = requests
            .begin(Type::Clunk, Want::Nothing(Some(9)), ())
            .unwrap();
        assert_eq!(requests.small_replies(10), None);
        requests.abandon(read);
        assert_eq!(requests.small_replies(10), Some(20));
        assert!(!requests.is_in_place(read));
        let message = rread(read, 4096);
        let incoming = requests.arrives(&Header::peek(&message).unwrap()).unwrap();
        assert_eq!((incoming.prefix_len, incoming.payload_len), (11, 4096));
        assert!(matches!(incoming.place, Place::Nowhere));
        assert_eq!(
            requests.finish(read, &message, 4096, Vec::new()),
            (None, None)
        );
        let mut message = vec![7, 0, 0, 0, 121];
        message.extend(clunk.to_le_bytes());
        assert_eq!(
            requests.finish(clunk, &message, 0, Vec::new()),
            (None, Some(9))
        );
        assert!(requests.has_room(4));
    }

    #[test]
    fn what_is_called_off_ends_unless_it_was_answered_before() {
        let flush = [7, 0, 0, 0, 109, 1, 0];
        for is_answered in [false, true] {
            let mut requests = requests();
            let lock = requests.begin(Type::Lock, Want::Message, ()).unwrap();
            let off = requests
                .begin(Type::Flush, Want::CallOff(lock, Errno::EINTR.into()), ())
                .unwrap();
            assert_eq!((lock, off), (0, 1));
            if is_answered {
                let granted = [8, 0, 0, 0, 53, 0, 0, 0];
                requests.arrives(&Header::peek(&granted).unwrap()).unwrap();
                requests.finish(lock, &granted, 0, Vec::new());
            }
            requests.arrives(&Header::peek(&flush).unwrap()).unwrap();
            let told = requests.finish(off, &flush, 0, Vec::new());
            assert_eq!(told, ((!is_answered).then_some(()), None));
            let outcome = requests.take(lock).unwrap();
            match is_answered {
                true => assert!(outcome.is_ok()),
                false => assert_eq!(outcome.unwrap_err(), Error::Refused(Errno::EINTR)),
            }
            assert!(requests.has_room(4));
        }
    }

    #[test]
    fn an_owned_buffer_comes_back_with_its_answer() {
        let mut requests = requests();
        let tag = requests
            .begin(Type::Read, Want::Owned(vec![7; 2000]), ())
            .unwrap();
        let message = rread(tag, 1500);
        let incoming = requests.arrives(&Header::peek(&message).unwrap()).unwrap();
        let Place::Owned(buf) = incoming.place else {
            panic!("it has a place");
        };
        requests.finish(tag, &message, 1500, buf);
        let answer = requests.take(tag).unwrap().unwrap();
        assert_eq!((answer.payload_len, answer.data.len()), (1500, 2000));
        assert_eq!(requests.small_replies(10), Some(0));
    }
}
