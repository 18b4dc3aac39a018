//! 9P connections on sockets, a thread for each.

use super::{Answer, NullServer, Session};
use crate::bench::error::{BenchError, Context};
use rustix::net::sockopt;
use sluice_proto::p9::wire::{HEADER_LEN, Header};
use sluice_sys::duplicate_inherited;
use sluicefs::Address;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Longest prefix of a message that somebody has reason to send.
const PREFIX_MAX: usize = 16 * 1024;

/// Serves a copy of `share` at `address`, a `unix:` or `tcp:` one or a TCP socket
/// that listens (`fd:`), until killed.
///
/// # Errors
/// When it cannot read the share or cannot listen.
pub fn serve(address: &Address, share: &Path) -> Result<(), BenchError> {
    let server = NullServer::load(share)?;
    match address {
        Address::Unix(path) => {
            let listener = UnixListener::bind(path).context(path.display())?;
            loop {
                let (socket, _) = listener.accept().context("connection")?;
                attend(&server, socket)?;
            }
        }
        Address::Tcp { .. } => {
            let numbers = address.resolve().context("address")?;
            serve_tcp(&server, &TcpListener::bind(&*numbers).context("address")?)
        }
        Address::Fd(number) => {
            let listener = duplicate_inherited(*number).context("address")?;
            serve_tcp(&server, &listener.into())
        }
        _ => Err(BenchError::new("the address is not unix:, tcp: or fd:")),
    }
}

fn serve_tcp(server: &Arc<NullServer>, listener: &TcpListener) -> Result<(), BenchError> {
    loop {
        let (socket, _) = listener.accept().context("connection")?;
        sockopt::set_tcp_nodelay(socket.as_fd(), true).context("connection")?;
        attend(server, socket)?;
    }
}

fn attend<S>(server: &Arc<NullServer>, socket: S) -> Result<(), BenchError>
where
    S: Send + 'static,
    for<'s> &'s S: Read + Write,
{
    let mut session = Session::new(server);
    let thread = std::thread::Builder::new().name("connection".into());
    // A connection that breaks ends its thread and nothing else.
    let spawned = thread.spawn(move || talk(&mut session, &socket).is_ok());
    spawned.context("a thread").map(drop)
}

/// Until the peer ends the connection.
fn talk<S: Read + Write + Copy>(session: &mut Session, socket: S) -> io::Result<()> {
    let mut input = BufReader::new(socket);
    let mut output = socket;
    let mut prefix = Vec::new();
    let mut answer = Answer::default();
    while !input.fill_buf()?.is_empty() {
        prefix.resize(HEADER_LEN, 0);
        input.read_exact(&mut prefix)?;
        let header = Header::peek(&prefix).map_err(io::Error::other)?;
        let len = header.prefix_len();
        if !(HEADER_LEN..=PREFIX_MAX).contains(&len) || header.size > session.size_max() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        prefix.resize(len, 0);
        input.read_exact(prefix.get_mut(HEADER_LEN..).unwrap_or_default())?;
        let payload_len = header.size as usize - len;
        let mut payload = input.by_ref().take(payload_len as u64);
        session
            .answer(&prefix, &mut payload, payload_len, &mut answer)
            .ok_or(io::ErrorKind::InvalidData)?;
        // What was not asked for would be taken for the next message.
        io::copy(&mut payload, &mut io::sink())?;
        send(&mut output, &answer)?;
    }
    Ok(())
}

fn send(socket: &mut impl Write, answer: &Answer) -> io::Result<()> {
    let mut slices: Vec<_> = answer.pieces().map(IoSlice::new).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        match socket.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
