//! Surviving a guest whose memory shrinks under us.
//!
//! Touching a mapped page behind the end of its file raises SIGBUS, which ends
//! the process. A peer can cause that at will with `ftruncate`. So one handler for
//! the whole process looks the address up among the watched mappings: if it is
//! ours, it puts anonymous memory over the page and marks the mapping; the
//! interrupted access then goes on with zeros, and the ring code sees the mark and
//! fails the connection. Any other address goes to the handler that was there
//! before.
//!
//! The list of mappings is read inside the signal handler, so it is made of nodes
//! that are never freed (only reused) and of atomics; the handler takes no lock and
//! calls nothing but `mmap` and `sigaction`.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// A watched mapping; unwatched on drop, which must come before the unmapping.
#[derive(Debug)]
pub(super) struct Watch {
    node: &'static Node,
}

impl Watch {
    /// Watches `len` bytes at `start`, a mapping whose pages have `page_bytes`.
    pub(super) fn new(start: usize, len: usize, page_bytes: usize) -> io::Result<Watch> {
        install_handler()?;
        let node = claim_node();
        node.page_bytes.store(page_bytes, Ordering::Relaxed);
        node.poisoned.store(false, Ordering::Relaxed);
        node.start.store(start, Ordering::Release);
        node.end.store(start + len, Ordering::Release);
        Ok(Watch { node })
    }

    /// Whether a page of the mapping was lost.
    pub(super) fn is_poisoned(&self) -> bool {
        self.node.poisoned.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.node.end.store(0, Ordering::Release);
        self.node.claimed.store(false, Ordering::Release);
    }
}

/// How many pages were lost in this process so far. A caller that sees the same
/// number as before need not look at its regions one by one.
pub(crate) fn lost_pages() -> usize {
    LOST_PAGES.load(Ordering::Acquire)
}

static LOST_PAGES: AtomicUsize = AtomicUsize::new(0);
static NODES: AtomicPtr<Node> = AtomicPtr::new(null_mut());
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

#[derive(Debug)]
struct Node {
    next: *const Node,
    claimed: AtomicBool,
    start: AtomicUsize,
    /// 0 while nothing is watched through this node.
    end: AtomicUsize,
    page_bytes: AtomicUsize,
    poisoned: AtomicBool,
}

// SAFETY: `next` points to another leaked node and is never changed once the node
// is in the list; everything else is atomic.
unsafe impl Sync for Node {}
// SAFETY: as above; a node has no ties to the thread that made it.
unsafe impl Send for Node {}

impl Node {
    /// Whether the node watches `address`. Reads twice, as the node may be given
    /// to another mapping meanwhile.
    fn covers(&self, address: usize) -> bool {
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        start <= address && address < end && self.end.load(Ordering::Acquire) == end
    }
}

fn nodes() -> impl Iterator<Item = &'static Node> {
    let mut at = NODES.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null or a leaked node, which lives for ever.
        let node: &'static Node = unsafe { at.as_ref()? };
        at = node.next;
        Some(node)
    })
}

fn claim_node() -> &'static Node {
    let free = nodes().find(|node| {
        node.claimed
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    });
    free.unwrap_or_else(add_node)
}

fn add_node() -> &'static Node {
    let node = Box::leak(Box::new(Node {
        next: null(),
        claimed: AtomicBool::new(true),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        page_bytes: AtomicUsize::new(0),
        poisoned: AtomicBool::new(false),
    }));
    let mut head = NODES.load(Ordering::Acquire);
    loop {
        node.next = head;
        let new: *mut Node = node;
        match NODES.compare_exchange(head, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above, and from here on only shared references to it
            // are made.
            Ok(_) => return unsafe { &*new },
            Err(now) => head = now,
        }
    }
}

fn install_handler() -> io::Result<()> {
    static OUTCOME: OnceLock<Result<(), i32>> = OnceLock::new();
    OUTCOME
        .get_or_init(|| replace_handler().map_err(|e| e.raw_os_error().unwrap_or(libc::EINVAL)))
        .map_err(io::Error::from_raw_os_error)
}

fn replace_handler() -> io::Result<()> {
    // SAFETY: `sigaction` is plain data for which zeros are a valid value, and the
    // calls get valid pointers. The previous action is known before ours is set.
    // The handler does only what is allowed in a signal handler.
    unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, null(), &mut previous) != 0 {
            return Err(io::Error::last_os_error());
        }
        let _ = PREVIOUS.set(previous);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigbus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        if libc::sigaction(libc::SIGBUS, &action, null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel gives a valid siginfo with SA_SIGINFO; a positive code
    // says that it raised the signal itself, so the address is filled in. The
    // errno location is this thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        let handled = (*info).si_code > 0 && replace_page((*info).si_addr() as usize);
        *libc::__errno_location() = errno;
        if !handled {
            call_previous(signal, info, context);
        }
    }
}

/// Puts anonymous memory over the page at `address` if it is watched.
fn replace_page(address: usize) -> bool {
    let Some(node) = nodes().find(|node| node.covers(address)) else {
        return false;
    };
    let page_bytes = node.page_bytes.load(Ordering::Relaxed);
    let page = address - address % page_bytes;
    // SAFETY: the page belongs to a watched mapping, which is unmapped only after
    // its watch ended and only when nobody uses it; here somebody does, as it
    // faulted. So MAP_FIXED replaces memory of that mapping and nothing else.
    let mapped = unsafe {
        libc::mmap(
            page as *mut libc::c_void,
            page_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return false;
    }
    node.poisoned.store(true, Ordering::Release);
    LOST_PAGES.fetch_add(1, Ordering::AcqRel);
    true
}

/// # Safety
/// Only from the signal handler, with its own arguments.
unsafe fn call_previous(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C" fn(libc::c_int);

    let previous = PREVIOUS.get();
    let handler = previous.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    // SAFETY: a handler that is neither SIG_DFL nor SIG_IGN is a function of the
    // type its flags name. The default action is set again and the instruction
    // that faulted runs once more, so that the process ends as it would have.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, null_mut());
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        } else if previous.is_some_and(|action| action.sa_flags & libc::SA_SIGINFO != 0) {
            std::mem::transmute::<usize, WithInfo>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, Plain>(handler)(signal);
        }
    }
}
