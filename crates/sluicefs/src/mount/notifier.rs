//! Notifications to the kernel, from a thread that serves no request: the
//! kernel may hold a lock that only the reply to a request makes it let go.

use super::device::Device;
use sluice_proto::fuse::serve::Notifier;
use sluice_proto::fuse::wire::{Notification, encode_notification};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Most notifications that wait to be sent. When one on top is lost, the
/// kernel is told to look all names up again.
const QUEUE_MAX: usize = 4096;

/// Longest notification of ours in bytes: headers and one name.
const MESSAGE_MAX: usize = 1024;

/// Queues notifications for [`Queue::send_all`].
pub(super) struct QueuedNotifier {
    messages: SyncSender<Vec<u8>>,
    has_lost_some: Arc<AtomicBool>,
}

/// The other end.
pub(super) struct Queue {
    messages: Receiver<Vec<u8>>,
    has_lost_some: Arc<AtomicBool>,
}

/// A notifier and the queue behind it.
pub(super) fn queue() -> (QueuedNotifier, Queue) {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let has_lost_some = Arc::new(AtomicBool::new(false));
    let notifier = QueuedNotifier {
        messages: sender,
        has_lost_some: Arc::clone(&has_lost_some),
    };
    let queue = Queue {
        messages: receiver,
        has_lost_some,
    };
    (notifier, queue)
}

impl Notifier for QueuedNotifier {
    fn notify(&self, notification: &Notification<'_>) {
        let message = encode(notification);
        if let Err(TrySendError::Full(_)) = self.messages.try_send(message) {
            self.has_lost_some.store(true, Ordering::Release);
        }
    }
}

impl Queue {
    /// Sends until the last notifier is gone.
    pub(super) fn send_all(self, device: &Device) {
        for message in &self.messages {
            send(device, &message);
            if self.has_lost_some.swap(false, Ordering::AcqRel) {
                tracing::warn!("too many changes at once: all names are to be looked up again");
                send(device, &encode(&Notification::IncEpoch {}));
            }
        }
    }
}

fn send(device: &Device, message: &[u8]) {
    if let Err(error) = device.send(&[IoSlice::new(message)]) {
        tracing::debug!(%error, "the kernel refused a notification");
    }
}

/// The bytes of a notification; none for one that no kernel would take.
fn encode(notification: &Notification<'_>) -> Vec<u8> {
    let mut message = vec![0; MESSAGE_MAX];
    let len = encode_notification(notification, &mut message).unwrap_or(0);
    message.truncate(len);
    message
}
