//! Busy loops beside tests: the load under which flakes show.
//!
//! Invariant: they end with the value, and they are threads of this process, so they never outlive it
//! and are in no child's processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// So many loops, until dropped.
pub(crate) struct Busy {
    end: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn start(number: usize) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let loops = (0..number)
            .map(|_| {
                let end = Arc::clone(&end);
                thread::spawn(move || {
                    while !end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { end, loops }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        for busy in self.loops.drain(..) {
            // A loop cannot panic.
            let _ = busy.join();
        }
    }
}
