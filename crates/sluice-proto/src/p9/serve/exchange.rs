//! What a transport implements.

use sluice_vfs::{ReadSink, WriteSource};

/// One request in the hands of its transport, until it is answered.
///
/// The transport has copied the request out up to
/// [`Header::prefix_len`](crate::p9::wire::Header::prefix_len); the data of a
/// Twrite stays with it and is taken through [`Exchange::source`].
///
/// The data of an Rread or Rreaddir goes into [`Exchange::sink`] first; then
/// [`Exchange::finish`] brings the message before it and sends both. Failing to
/// send is the transport's own affair; nobody waits to hear of it.
pub trait Exchange: Send + 'static {
    /// The data of a Twrite: every byte of the request behind the prefix.
    fn source(&mut self) -> &mut dyn WriteSource;

    /// Where the data of an Rread or Rreaddir goes, which stands
    /// [`REPLY_PAYLOAD_AT`](crate::p9::wire::REPLY_PAYLOAD_AT) bytes into the
    /// reply. It has room for as much as the transport can send.
    fn sink(&mut self) -> &mut dyn ReadSink;

    /// Whether a reply's payload of so many bytes takes memory that it may have to wait
    /// for.
    fn is_large(&self, _len: usize) -> bool {
        false
    }

    /// Sets memory aside for such a payload, until it is in the sink. If there is none
    /// the request waits, others go on, and [`Server::next_ready`] asks again, in the
    /// order of arrival; the transport sees to it that it is called when there is some.
    ///
    /// [`Server::next_ready`]: super::Server::next_ready
    fn reserve(&mut self, _len: usize) -> bool {
        true
    }

    /// The request has to wait, with its payload and a copy of the `len` bytes before that.
    fn keep(&mut self, _len: usize) {}

    /// Sends the reply: `message`, and behind it the first `payload_len` bytes
    /// of the sink, which the size in the message counts. What else is in the
    /// sink (a read that failed half way) must not reach the peer.
    fn finish(self, message: &[u8], payload_len: usize)
    where
        Self: Sized;

    /// Ends a request that was taken back: it gets no reply.
    fn discard(self)
    where
        Self: Sized;

    /// Puts the request aside, to be answered later from any thread by a
    /// message without payload.
    fn park(self) -> Box<dyn Parked>
    where
        Self: Sized;
}

/// A request that waits for its answer. Dropped without one, the transport
/// releases what it holds.
pub trait Parked: Send {
    /// Sends the reply. Must not block for long.
    fn finish(self: Box<Self>, message: &[u8]);

    /// Ends it with no reply.
    fn discard(self: Box<Self>);
}

/// How a server reaches the threads of its transport.
pub trait Link: Send + Sync {
    /// Requests that waited for others can run now, or there is room for others
    /// where there was none: some thread should call
    /// [`Server::next_ready`](super::Server::next_ready), and go on taking
    /// messages in if [`Server::has_room`](super::Server::has_room). Called from
    /// any thread, and must not block.
    fn ready(&self);
}
