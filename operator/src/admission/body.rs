//! Bodies of requests: read within a deadline, and within a budget of bytes that all of them share.
//!
//! Small bodies, which nearly all reviews are, and large ones have lanes of their own. In the small
//! lane a newcomer that finds no room takes that of whoever is being read for longest: an honest
//! body is there within a moment, one that drips is the oldest. In the large lane, where an honest
//! body takes a while, newcomers wait.
//!
//! Invariant: a body has its room before its first byte is kept and until the answer is made, and
//! room is never given twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Largest body: what the API server itself takes (`MaxRequestBodyBytes`).
pub const LARGEST: usize = 3 * 1024 * 1024;
/// Largest body of the small lane. A review of a TenantCluster has about 10 KiB.
const SMALL: usize = 64 * 1024;
/// What a request counts for at least: its head and its state.
const LEAST: usize = 4 * 1024;
/// Bytes of all small bodies.
const SMALL_LANE: usize = 4 * 1024 * 1024;
/// Bytes of all large bodies: four of the largest.
const LARGE_LANE: usize = 4 * LARGEST;
/// Large bodies that may wait for room.
const WAITING: usize = 64;
/// Bytes of all bodies together.
pub const BUDGET: usize = SMALL_LANE + LARGE_LANE;

/// From a request's head to its answer: below the time-out in the chart's configuration (5 s), so
/// that the API server learns why.
const REQUEST: Duration = Duration::from_secs(4);
/// From a body's room to its last byte.
const BODY: Duration = Duration::from_secs(3);

/// Why a body is not read to its end.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The head does not say how long the body is.
    #[error("send Content-Length: a body of unknown length is not read")]
    NoLength,
    /// It is longer than any review.
    #[error("the body has more than {LARGEST} bytes")]
    TooLarge,
    /// No room within the deadline.
    #[error("too many large requests at once; try again in a second")]
    Busy,
    /// It was the slowest when another needed its room.
    #[error("the body came too slowly while others waited; try again")]
    Displaced,
    /// It did not end within the deadline.
    #[error("the body came too slowly")]
    Slow,
    /// The connection broke.
    #[error("the body ended early")]
    Broken,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoLength => StatusCode::LENGTH_REQUIRED,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy | Self::Displaced => StatusCode::SERVICE_UNAVAILABLE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        };
        let mut response = (status, self.to_string()).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from(1));
        }
        response
    }
}

/// The budget of all bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct Bodies {
    small: Arc<Lane>,
    large: Arc<Lane>,
    waiting: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            small: Lane::new(SMALL_LANE),
            large: Lane::new(LARGE_LANE),
            waiting: Arc::new(Semaphore::new(WAITING)),
        }
    }
}

impl Bodies {
    /// Bytes that bodies have room for at the moment: at least what is in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.small.held() + self.large.held()
    }

    /// Reads a body, which keeps its room for as long as it is kept.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn read(&self, body: Body) -> Result<Read, Refusal> {
        let deadline = Instant::now() + REQUEST;
        let length = body.size_hint().exact().ok_or(Refusal::NoLength)?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| *length <= LARGEST)
            .ok_or(Refusal::TooLarge)?;
        let room = match length <= SMALL {
            true => timeout_at(deadline, self.small.displace(length)).await,
            false => {
                let Ok(_waits) = self.waiting.try_acquire() else {
                    return Err(Refusal::Busy);
                };
                timeout_at(deadline, self.large.wait(length)).await
            }
        };
        let room = room.map_err(|_| Refusal::Busy)??;
        let deadline = deadline.min(Instant::now() + BODY);
        let bytes = tokio::select! {
            // One that is complete is never sent away.
            biased;
            read = timeout_at(deadline, collect(body, length)) => read.map_err(|_| Refusal::Slow)??,
            () = room.reader.displaced.notified() => return Err(Refusal::Displaced),
        };
        Ok(Read {
            bytes,
            _room: room.into_permit(),
        })
    }
}

async fn collect(mut body: Body, length: usize) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::with_capacity(length);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Broken)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > length {
            return Err(Refusal::Broken);
        }
        bytes.extend_from_slice(&data);
    }
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(Refusal::Broken),
    }
}

/// A body in memory.
#[derive(Debug)]
pub struct Read {
    /// All of it.
    pub bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// Room for bodies of one kind.
#[derive(Debug)]
struct Lane {
    bytes: usize,
    free: Arc<Semaphore>,
    reading: Mutex<Readers>,
}

/// Bodies that are not complete, the oldest first, whether they have room or wait for it: how much
/// it is, and how each is told to go.
#[derive(Debug, Default)]
struct Readers {
    next: u64,
    claimed: usize,
    all: BTreeMap<u64, (u32, Arc<Notify>)>,
}

impl Readers {
    fn pop_oldest(&mut self) -> bool {
        let Some((_, (bytes, displaced))) = self.all.pop_first() else {
            return false;
        };
        self.claimed -= bytes as usize;
        displaced.notify_one();
        true
    }

    fn remove(&mut self, number: u64) {
        if let Some((bytes, _)) = self.all.remove(&number) {
            self.claimed -= bytes as usize;
        }
    }
}

impl Lane {
    fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            free: Arc::new(Semaphore::new(bytes)),
            reading: Mutex::default(),
        })
    }

    fn held(&self) -> usize {
        self.bytes - self.free.available_permits()
    }

    /// Room for a body, for which the oldest have to go if need be. What all that are left want then
    /// fits into the lane, so who comes waits only until they are gone.
    async fn displace(self: &Arc<Self>, length: usize) -> Result<Held, Refusal> {
        self.send_oldest_away(permits(length) as usize);
        self.wait(length).await
    }

    fn send_oldest_away(&self, count: usize) {
        let mut reading = self.reading();
        while reading.claimed + count > self.bytes && reading.pop_oldest() {}
    }

    /// Room for a body, once others have let go of it.
    async fn wait(self: &Arc<Self>, length: usize) -> Result<Held, Refusal> {
        let count = permits(length);
        let reader = self.claim(count);
        let displaced = Arc::clone(&reader.displaced);
        tokio::select! {
            biased;
            permit = Arc::clone(&self.free).acquire_many_owned(count) => {
                // Nobody closes the lane; if somebody did, there is no room.
                let permit = permit.map_err(|_| Refusal::Busy)?;
                Ok(Held { reader, permit })
            }
            () = displaced.notified() => Err(Refusal::Displaced),
        }
    }

    fn claim(self: &Arc<Self>, count: u32) -> Reader {
        let displaced = Arc::new(Notify::new());
        let mut reading = self.reading();
        let number = reading.next;
        reading.next += 1;
        reading.claimed += count as usize;
        reading.all.insert(number, (count, Arc::clone(&displaced)));
        drop(reading);
        Reader {
            lane: Arc::clone(self),
            number,
            displaced,
        }
    }

    fn reading(&self) -> MutexGuard<'_, Readers> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room of a body that is being read.
#[derive(Debug)]
struct Held {
    reader: Reader,
    permit: OwnedSemaphorePermit,
}

impl Held {
    /// The body is complete, and keeps its room.
    fn into_permit(self) -> OwnedSemaphorePermit {
        drop(self.reader);
        self.permit
    }
}

/// A place among the readers, until it is dropped.
#[derive(Debug)]
struct Reader {
    lane: Arc<Lane>,
    number: u64,
    displaced: Arc<Notify>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.lane.reading().remove(self.number);
    }
}

/// What a body of this length counts for.
fn permits(length: usize) -> u32 {
    // At most LARGEST, which fits; more would never find room.
    u32::try_from(length.max(LEAST)).unwrap_or(u32::MAX)
}
