//! A driver and a device in one process.

mod common;

use common::{DROP, Event, INTERRUPTED, PANIC, PARK, connect};
use sluice_virtio::driver::{DriverError, Options, WaitMode};
use sluice_virtio::queue::layout::{F_EVENT_IDX, F_INDIRECT_DESC};
use sluice_virtio::vhost_user::{Error, Served};

/// Every combination of features and ways to wait.
fn variants() -> impl Iterator<Item = Options> {
    let features = [
        0,
        F_INDIRECT_DESC,
        F_EVENT_IDX,
        F_INDIRECT_DESC | F_EVENT_IDX,
    ];
    features.into_iter().flat_map(|features| {
        [WaitMode::Event, WaitMode::Spin].map(|wait_mode| Options {
            features,
            wait_mode,
            ..Options::default()
        })
    })
}

#[test]
fn requests_are_answered_with_every_set_of_features() {
    for options in variants() {
        let (mut driver, served) = connect(options);
        let mut queue = driver.start_queue(1).unwrap();
        for round in 0..1000u32 {
            let sent = format!("request {round}");
            let parts: Vec<_> = sent.as_bytes().chunks(5).collect();
            let done = queue.roundtrip(&parts, &[3, 4, 100]).unwrap();
            assert_eq!(queue.reply(&done), sent.as_bytes(), "{options:?}");
        }
        drop(driver);
        assert_eq!(served.outcome().unwrap(), Served::Disconnected);
    }
}

#[test]
fn many_requests_in_flight_are_all_answered() {
    for options in variants() {
        let (mut driver, _served) = connect(options);
        let mut queue = driver.start_queue(0).unwrap();
        let mut waiting = std::collections::HashMap::new();
        let mut answered = 0;
        for round in 0..2000u32 {
            let sent = round.to_ne_bytes();
            while queue.in_flight() >= 16 {
                let done = queue.wait().unwrap();
                let sent: Vec<u8> = waiting.remove(&done.token).unwrap();
                assert_eq!(queue.reply(&done), sent);
                answered += 1;
            }
            waiting.insert(queue.submit(&[&sent], &[8]).unwrap(), sent.to_vec());
            if round % 3 == 0 {
                queue.kick();
            }
        }
        queue.kick();
        while queue.in_flight() > 0 {
            let done = queue.wait().unwrap();
            assert_eq!(queue.reply(&done), waiting.remove(&done.token).unwrap());
            answered += 1;
        }
        assert_eq!(answered, 2000);
    }
}

#[test]
fn buffers_may_span_adjacent_regions() {
    let options = Options {
        regions: 32,
        memory_bytes: 64 << 20,
        slots: 4,
        slot_bytes: 8 << 20,
        ..Options::default()
    };
    let (mut driver, _served) = connect(options);
    let mut queue = driver.start_queue(1).unwrap();
    let sent: Vec<u8> = (0..3_500_000u32).map(|i| (i * 7) as u8).collect();
    let done = queue.roundtrip(&[&sent], &[sent.len() as u32]).unwrap();
    assert_eq!(done.written as usize, sent.len());
    assert!(queue.reply(&done) == sent);
}

#[test]
fn a_chain_dropped_is_returned_with_nothing_written() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    assert_eq!(queue.roundtrip(&[DROP], &[64]).unwrap().written, 0);
    assert_eq!(queue.roundtrip(&[b"x"], &[64]).unwrap().written, 1);
}

#[test]
fn a_parked_chain_is_completed_by_another_thread_while_others_go_on() {
    let (mut driver, served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    let parked = queue.submit(&[PARK], &[64]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    for _ in 0..100 {
        assert_eq!(queue.roundtrip(&[b"x"], &[64]).unwrap().written, 1);
    }
    assert_eq!(served.device.release(), 1);
    let done = queue.wait().unwrap();
    assert_eq!(done.token, parked);
    assert_eq!(queue.reply(&done), PARK);
}

#[test]
fn a_stop_interrupts_parked_chains_and_the_ring_goes_on_where_it_was() {
    for options in variants() {
        let (mut driver, served) = connect(options);
        let mut queue = driver.start_queue(1).unwrap();
        for _ in 0..5 {
            queue.roundtrip(&[b"x"], &[64]).unwrap();
        }
        queue.submit(&[PARK], &[64]).unwrap();
        queue.kick();
        served.wait_for(Event::Parked(1));
        let base = driver.stop(1).unwrap();
        assert_eq!(base, 6);
        let done = queue.wait().unwrap();
        assert_eq!(queue.reply(&done), INTERRUPTED);

        // What is submitted while the ring is stopped waits for its start.
        queue.submit(&[b"later"], &[64]).unwrap();
        queue.kick();
        assert!(queue.poll().unwrap().is_none());
        driver.start(&queue, base).unwrap();
        let done = queue.wait().unwrap();
        assert_eq!(queue.reply(&done), b"later");
    }
}

#[test]
fn a_ring_is_set_up_anew_after_a_reset() {
    let (mut driver, _served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    for _ in 0..3 {
        for _ in 0..200 {
            assert_eq!(queue.roundtrip(&[b"x"], &[64]).unwrap().written, 1);
        }
        assert_eq!(driver.stop(1).unwrap(), 200);
        queue.clear();
        driver.share_memory().unwrap();
        driver.start(&queue, 0).unwrap();
    }
}

#[test]
fn a_disabled_ring_rests_and_may_be_set_up_anew_as_user_mode_linux_does() {
    let (mut driver, served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    queue.roundtrip(&[b"x"], &[64]).unwrap();
    driver.enable(1, false).unwrap();
    served.wait_for(Event::Stopped(1));
    queue.submit(&[b"y"], &[64]).unwrap();
    queue.kick_anyway();
    driver.enable(1, true).unwrap();
    assert_eq!(queue.wait().unwrap().written, 1);

    driver.enable(1, false).unwrap();
    queue.clear();
    driver.share_memory().unwrap();
    driver.start(&queue, 0).unwrap();
    assert_eq!(queue.roundtrip(&[b"x"], &[64]).unwrap().written, 1);
}

#[test]
fn queues_do_not_wait_for_each_other() {
    let (mut driver, served) = connect(Options::default());
    let mut first = driver.start_queue(0).unwrap();
    let mut second = driver.start_queue(1).unwrap();
    first.submit(&[PARK], &[64]).unwrap();
    first.kick();
    served.wait_for(Event::Parked(0));
    assert_eq!(second.roundtrip(&[b"x"], &[64]).unwrap().written, 1);
    // Stopping one does not touch what the other has parked.
    driver.stop(1).unwrap();
    assert!(first.poll().unwrap().is_none());
    served.device.release();
    assert_eq!(first.wait().unwrap().written, 4);
}

#[test]
fn a_panic_of_the_device_ends_the_connection_only() {
    let (mut driver, served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    queue.submit(&[PANIC], &[64]).unwrap();
    queue.kick();
    assert!(matches!(
        driver.channel().recv(),
        Ok(None) | Err(sluice_virtio::vhost_user::channel::ChannelError::CutShort)
    ));
    assert!(matches!(served.outcome(), Err(Error::DevicePanicked(1))));
    assert!(matches!(
        driver.stop(1),
        Err(DriverError::Closed | DriverError::Channel(_))
    ));
}

#[test]
fn a_stop_from_outside_ends_the_connection_and_its_parked_chains() {
    let (mut driver, served) = connect(Options::default());
    let mut queue = driver.start_queue(1).unwrap();
    queue.submit(&[PARK], &[64]).unwrap();
    queue.kick();
    served.wait_for(Event::Parked(1));
    served.stopper.stop();
    let done = queue.wait().unwrap();
    assert_eq!(queue.reply(&done), INTERRUPTED);
    served.wait_for(Event::Disconnected);
    assert_eq!(served.outcome().unwrap(), Served::Stopped);
}
