//! Emulates distance between two network namespaces by delaying each packet between their TCP
//! stacks.
//!
//! Both ends are TUN devices. Unlike at the emulated WAN's relay, TCP does not terminate here: the
//! two kernels handshake, acknowledge and slow-start over the delay themselves. A TUN device has no
//! offloads by default, so packets are small and have complete checksums.

use std::io::Write as _;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_tun::Tun;

/// Ethernet's.
const MTU: u16 = 1500;
/// Most packets in flight; more are dropped, as in a router's queue.
const QUEUE: usize = 1 << 16;
/// How late a sleep ends. Packets of one burst are due within microseconds of each other, and each
/// would pay this delay.
const GRAIN: Duration = Duration::from_micros(100);
/// Interval between checks of a device that is not up.
const PAUSE: Duration = Duration::from_millis(10);

/// Creates two devices with these names, prints them, and forwards packets between them until the
/// process ends.
///
/// # Errors
///
/// When the devices cannot be created.
pub fn run(names: [&str; 2], delay: Duration) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let [a, b] = names.map(device);
        let (a, b) = (a?, b?);
        println!("bridge of {} ms a way", delay.as_secs_f64() * 1e3);
        std::io::stdout().flush()?;
        tokio::join!(carry(&a, &b, delay), carry(&b, &a, delay));
        Ok(())
    })
}

fn device(name: &str) -> anyhow::Result<Arc<Tun>> {
    let devices = Tun::builder().name(name).mtu(i32::from(MTU)).build().with_context(|| {
        format!("cannot make the network device {name}; it takes root and /dev/net/tun")
    })?;
    devices.into_iter().next().map(Arc::new).context("the kernel made no network device")
}

/// One direction, until the process ends.
async fn carry(from: &Tun, to: &Arc<Tun>, delay: Duration) {
    let (send, come) = mpsc::sync_channel(QUEUE);
    let to = to.clone();
    // A separate thread: the runtime's timers have a granularity of a millisecond.
    thread::spawn(move || deliver(&come, &to));
    let mut packet = vec![0; usize::from(MTU)];
    loop {
        match from.recv(&mut packet).await {
            // A full queue drops packets.
            Ok(size) => drop(send.try_send((Instant::now() + delay, packet[..size].to_vec()))),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Delivers packets when they are due.
fn deliver(come: &mpsc::Receiver<(Instant, Vec<u8>)>, to: &Tun) {
    while let Ok((due, packet)) = come.recv() {
        let early = due.saturating_duration_since(Instant::now());
        if early > GRAIN {
            thread::sleep(early.saturating_sub(GRAIN));
        }
        // A packet that the other end does not accept is lost.
        let _ = to.try_send(&packet);
    }
}
