//! Servers at the other end of a socket: one that serves the model, and one
//! that says what a test tells it to.

use sluice_client::{Client, ConnectOptions, Dialect, Socket};
use sluice_lab::model::{ModelOptions, ModelService};
use sluice_lab::p9_stream::serve_stream;
pub(crate) use sluice_lab::p9_stream::{Run, receive};
use sluice_proto::p9::serve::ServerConfig;
use sluice_proto::p9::wire::*;
use sluice_vfs::{AccessChecks, Errno, FileService, Peer};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Longer than anything here takes, and an end all the same.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        uid: 0,
        time_limit: Some(PATIENCE),
        ..ConnectOptions::default()
    }
}

pub(crate) fn only(dialect: Dialect) -> ConnectOptions {
    ConnectOptions {
        dialects: vec![dialect],
        ..options()
    }
}

/// A client of a server over the model.
pub(crate) fn client(options: &ConnectOptions) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    serve_model(theirs, Run::Inline);
    over(ours, options).unwrap()
}

pub(crate) fn over(stream: UnixStream, options: &ConnectOptions) -> sluice_client::Result<Client> {
    let socket = Socket::new(stream.into())?;
    Client::over(Box::new(socket), options)
}

/// Serves the model until the peer closes.
pub(crate) fn serve_model(stream: UnixStream, run: Run) {
    let service = Arc::new(ModelService::new(ModelOptions::default()));
    serve_service(service, stream, run);
}

/// Serves a service until the peer closes.
pub(crate) fn serve_service(service: Arc<dyn FileService>, stream: UnixStream, run: Run) {
    let peer = Peer {
        label: "test".to_owned(),
        checks: AccessChecks::Peer,
    };
    serve_stream(service, stream, run, |link| ServerConfig::new(peer, link));
}

/// A server that answers Tversion and Tattach, and everything behind them as it
/// is told to.
pub(crate) struct Script {
    pub(crate) stream: UnixStream,
}

impl Script {
    /// A client that speaks 9P2000.L, and `script` on a thread of its own once that is attached.
    pub(crate) fn client(
        options: &ConnectOptions,
        script: impl FnOnce(&mut Script) + Send + 'static,
    ) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let dialect = Dialect::Linux;
        let dialects = vec![dialect];
        let options = &ConnectOptions {
            dialects,
            ..options.clone()
        };
        let msize = options.msize;
        thread::spawn(move || {
            let mut it = Script { stream: theirs };
            it.next();
            let version = Str(dialect.version());
            it.reply(NOTAG, &Reply::Version { msize, version }, dialect, &[]);
            let tag = it.next().tag;
            let qid = Qid {
                kind: QidType::DIR,
                ..Qid::default()
            };
            it.reply(tag, &Reply::Attach { qid }, dialect, &[]);
            script(&mut it);
        });
        over(ours, options).unwrap()
    }

    /// The header of the next request.
    pub(crate) fn next(&mut self) -> Header {
        self.next_or_end().expect("another request")
    }

    pub(crate) fn next_or_end(&mut self) -> Option<Header> {
        receive(&mut self.stream).map(|message| Header::peek(&message).unwrap())
    }

    pub(crate) fn reply(&mut self, tag: u16, reply: &Reply<'_>, dialect: Dialect, data: &[u8]) {
        let mut message = vec![0; 4096];
        let len = encode_reply(tag, reply, dialect, &mut message).unwrap();
        message.truncate(len);
        message.extend(data);
        self.stream.write_all(&message).unwrap();
    }

    /// In 9P2000.L.
    pub(crate) fn answer(&mut self, tag: u16, reply: &Reply<'_>) {
        self.reply(tag, reply, Dialect::Linux, &[]);
    }

    pub(crate) fn refuse(&mut self, tag: u16, errno: Errno) {
        let mut message = [11, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0];
        message[5..7].copy_from_slice(&tag.to_le_bytes());
        message[7..11].copy_from_slice(&errno.raw().to_le_bytes());
        self.stream.write_all(&message).unwrap();
    }

    /// Answers the two messages that open a file.
    pub(crate) fn let_open(&mut self) {
        let qid = Qid::default();
        let tag = self.next().tag;
        let qids = [qid.to_bytes()];
        self.answer(tag, &Reply::Walk { qids: Qids(&qids) });
        let tag = self.next().tag;
        self.answer(tag, &Reply::Lopen { qid, iounit: 0 });
    }

    /// Answers a Tclunk, which comes next.
    pub(crate) fn take_clunk(&mut self) {
        let clunk = self.next();
        assert_eq!(clunk.kind, 120);
        self.answer(clunk.tag, &Reply::Clunk {});
    }

    /// Reads on until the client goes.
    pub(crate) fn ignore_all(&mut self) {
        while self.next_or_end().is_some() {}
    }
}
