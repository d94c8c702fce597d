//! Keeps an object from being looked at again and again while much of it changes at once.
//!
//! Invariant: no change is lost. A look that is put off comes as soon as the pause is over, and sees
//! everything that happened until then; a look that failed is followed by its own back-off alone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::runtime::controller::Action as Requeue;
use tokio::time::Instant;

/// Pause between two looks that went well. What is being started changes many times a second, and
/// each look reads all of it.
const PAUSE: Duration = Duration::from_millis(250);

/// Of one controller.
#[derive(Debug, Default)]
pub struct Calm {
    /// When the last look at an object (`namespace/name`) ended well.
    looked: Mutex<HashMap<String, Instant>>,
}

impl Calm {
    /// Does the work, unless the object was looked at just now: then it is to come again a moment
    /// later.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn look<E>(
        &self,
        key: &str,
        work: impl Future<Output = Result<Requeue, E>>,
    ) -> Result<Requeue, E> {
        let last = self.lock().get(key).map(Instant::elapsed);
        if let Some(pause) = last.and_then(|since| PAUSE.checked_sub(since))
            && !pause.is_zero()
        {
            return Ok(Requeue::requeue(pause));
        }
        let result = work.await;
        let mut looked = self.lock();
        looked.retain(|_, at| at.elapsed() < PAUSE);
        if result.is_ok() {
            looked.insert(key.to_owned(), Instant::now());
        }
        drop(looked);
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_looked_at_just_now_comes_again_and_what_failed_is_not_put_off() {
        let calm = Calm::default();
        let done = Requeue::await_change();
        let look = async |result| calm.look("users/demo", async move { result }).await;
        assert_eq!(look(Ok(done.clone())).await, Ok(done.clone()));
        tokio::time::advance(Duration::from_millis(100)).await;
        let later = Requeue::requeue(Duration::from_millis(150));
        assert_eq!(look(Err(())).await, Ok(later), "it is not looked at");
        tokio::time::advance(Duration::from_millis(150)).await;
        assert_eq!(look(Err(())).await, Err(()));
        assert_eq!(look(Ok(done.clone())).await, Ok(done));
        let other = calm.look("users/other", async { Err(()) }).await;
        assert_eq!(other, Err(()));
    }
}
