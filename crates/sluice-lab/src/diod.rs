//! diod, the 9P server of others, as a peer.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use tempfile::TempDir;

/// diod on a listening socket, a process for each connection: listening itself,
/// it would ask the resolver for the name of whoever connects. Dropping it ends
/// them all.
pub struct Diod {
    listener: TcpListener,
    processes: Arc<Mutex<Vec<Child>>>,
    acceptor: Option<JoinHandle<()>>,
    /// Where it runs: it may crash when its connection ends, and wants an image of
    /// its memory then.
    _dir: TempDir,
}

impl Diod {
    /// Serves the directory `export`, whose path is also its aname.
    ///
    /// # Errors
    /// No thread, no descriptor or no temporary directory to be had.
    pub fn serve(program: &Path, export: &Path, listener: &TcpListener) -> io::Result<Diod> {
        let (program, export) = (std::path::absolute(program)?, export.to_owned());
        let dir = tempfile::tempdir()?;
        let at = dir.path().to_owned();
        let listener = listener.try_clone()?;
        let processes = Arc::new(Mutex::new(Vec::new()));
        let (accepting, started) = (listener.try_clone()?, processes.clone());
        let acceptor = thread::Builder::new().name("diod".into()).spawn(move || {
            while let Ok((connection, _)) = accepting.accept() {
                if let Ok(process) = serve_one(&program, &export, &at, connection) {
                    lock(&started).push(process);
                }
            }
        })?;
        Ok(Diod {
            listener,
            processes,
            acceptor: Some(acceptor),
            _dir: dir,
        })
    }

    /// The program in what `lab/prepare` filled.
    pub fn program(lab_cache: &Path) -> PathBuf {
        lab_cache.join("bin/diod")
    }
}

fn serve_one(
    program: &Path,
    export: &Path,
    dir: &Path,
    connection: TcpStream,
) -> io::Result<Child> {
    // As it does itself with those that it accepts.
    connection.set_nodelay(true)?;
    Command::new(program)
        .current_dir(dir)
        .args(["--foreground", "--no-auth", "--no-userdb"])
        .args(["--rfdno", "0", "--wfdno", "0", "--logdest", "stderr"])
        .arg("--export")
        .arg(export)
        .stdin(Stdio::from(OwnedFd::from(connection)))
        .spawn()
}

impl Drop for Diod {
    fn drop(&mut self) {
        // Ends the wait for connections.
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for process in lock(&self.processes).iter_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn lock(processes: &Mutex<Vec<Child>>) -> std::sync::MutexGuard<'_, Vec<Child>> {
    processes.lock().unwrap_or_else(PoisonError::into_inner)
}
