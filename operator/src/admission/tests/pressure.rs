//! Crowds: bodies that drip, and bodies that are large, beside a review that is neither.
//!
//! Invariant: time is played; what is counted is bytes and answers, never how fast this machine is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::Response;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use hyper::body::{Frame, SizeHint};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep};

use super::super::body::BUDGET;
use super::*;

const CROWD: usize = 600;
/// What the chart's configuration gives the webhook.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of bodies that have come and are not let go of, and the most there ever were.
#[derive(Debug, Default)]
struct Meter {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A body in pieces, as they come over a connection.
struct Played {
    length: u64,
    pieces: BoxStream<'static, Bytes>,
    given: usize,
    meter: Arc<Meter>,
}

impl hyper::body::Body for Played {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pieces.poll_next_unpin(context).map(|piece| {
            let piece = piece?;
            self.given += piece.len();
            let now = self.meter.now.fetch_add(piece.len(), Ordering::SeqCst) + piece.len();
            self.meter.most.fetch_max(now, Ordering::SeqCst);
            Some(Ok(Frame::data(piece)))
        })
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.meter.now.fetch_sub(self.given, Ordering::SeqCst);
    }
}

struct World {
    router: Router,
    bodies: Bodies,
    meter: Arc<Meter>,
}

impl World {
    fn new() -> Self {
        let bodies = Bodies::default();
        Self {
            router: router(validator(vec![]), bodies.clone(), Reviews::default()),
            bodies,
            meter: Arc::default(),
        }
    }

    /// Sends spaces, a piece after each pause; gives the status.
    fn send(&self, length: usize, piece: usize, pause: Duration) -> JoinHandle<StatusCode> {
        let piece = Bytes::from(vec![b' '; piece]);
        let pieces = futures::stream::unfold(length, move |left| {
            let piece = piece.slice(..piece.len().min(left));
            async move {
                if left == 0 {
                    return None;
                }
                sleep(pause).await;
                yield_now().await;
                let left = left - piece.len();
                Some((piece, left))
            }
        });
        let body = Played {
            length: length as u64,
            pieces: pieces.boxed(),
            given: 0,
            meter: Arc::clone(&self.meter),
        };
        let answer = self.post(Body::new(body));
        tokio::spawn(async move { answer.await.status() })
    }

    fn post(&self, body: Body) -> impl Future<Output = Response<Body>> + Send + 'static {
        let request = Request::post(TENANT_CLUSTERS).body(body).unwrap();
        let answer = self.router.clone().oneshot(request);
        async { answer.await.unwrap() }
    }

    /// Posts a good review with this much room after it, and sees it answered in time.
    async fn reviews(&self, room: usize) {
        let mut text = create(&json!({"version": "1.35.4"})).to_string();
        text.push_str(&" ".repeat(room));
        let began = Instant::now();
        let response = self.post(Body::from(text)).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(answer["response"]["allowed"], true);
    }

    /// The bytes that ever were in memory at once, and what the budget says of them now.
    fn within_budget(&self) {
        let most = self.meter.most.load(Ordering::SeqCst);
        let held = self.bodies.held();
        assert!(most <= BUDGET && held <= BUDGET, "{most} and {held} bytes");
    }
}

async fn statuses(crowd: Vec<JoinHandle<StatusCode>>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for one in crowd {
        statuses.push(one.await.unwrap().as_u16());
    }
    statuses
}

/// Lets every request that is begun take what room it can.
async fn settle() {
    for _ in 0..10 {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_drip_end_soon_and_keep_no_review_waiting() {
    let world = World::new();
    let drip = Duration::from_millis(100);
    let began = Instant::now();
    let crowd: Vec<_> = (0..CROWD).map(|_| world.send(60_000, 1, drip)).collect();
    settle().await;
    for _ in 0..10 {
        world.reviews(0).await;
        sleep(drip).await;
        world.within_budget();
    }
    let statuses = statuses(crowd).await;
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());
    // Those that had to go, and those that did not end in time.
    assert!(
        statuses.iter().all(|status| [503, 408].contains(status)),
        "{statuses:?}"
    );
    assert!(
        statuses.contains(&503) && statuses.contains(&408),
        "{statuses:?}"
    );
    assert_eq!(world.bodies.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn many_large_bodies_are_read_a_few_at_a_time_beside_reviews() {
    let world = World::new();
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| world.send(LARGEST, LARGEST / 8, Duration::ZERO))
        .collect();
    settle().await;
    assert!(world.bodies.held() > LARGEST, "some are being read");
    world.reviews(0).await;
    let statuses = statuses(crowd).await;
    world.within_budget();
    // No reviews, but read; the others are told to come again.
    assert!(
        statuses.iter().all(|status| [400, 503].contains(status)),
        "{statuses:?}"
    );
    let read = statuses.iter().filter(|status| **status == 400).count();
    assert!((4..CROWD).contains(&read), "{read} were read");
    assert_eq!(world.bodies.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_large_review_gets_the_room_of_large_bodies_that_drip() {
    let world = World::new();
    let second = Duration::from_secs(1);
    let crowd: Vec<_> = (0..4).map(|_| world.send(LARGEST, 1, second)).collect();
    settle().await;
    world.reviews(LARGEST / 2).await;
    assert_eq!(statuses(crowd).await, [408; 4]);
    world.within_budget();
}

#[tokio::test(start_paused = true)]
async fn a_large_review_that_finds_no_room_is_told_to_come_again() {
    let world = World::new();
    let second = Duration::from_secs(1);
    let crowd: Vec<_> = (0..8).map(|_| world.send(LARGEST, 1, second)).collect();
    settle().await;
    let response = world.post(Body::from(" ".repeat(LARGEST))).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers()["retry-after"], "1");
    // The second four had the room for what was left of their time.
    assert_eq!(statuses(crowd).await, [408; 8]);
}

#[tokio::test]
async fn a_body_of_unknown_length_is_not_read() {
    let world = World::new();
    let pieces = futures::stream::repeat(Ok::<_, Infallible>(Bytes::from_static(b" ")));
    let response = world.post(Body::from_stream(pieces)).await;
    assert_eq!(response.status(), StatusCode::LENGTH_REQUIRED);
}

#[tokio::test]
async fn a_body_that_is_not_as_long_as_it_said_is_refused() {
    let world = World::new();
    for said in [3, 5] {
        let body = Played {
            length: said,
            pieces: futures::stream::iter([Bytes::from_static(b"four")]).boxed(),
            given: 0,
            meter: Arc::clone(&world.meter),
        };
        let response = world.post(Body::new(body)).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{said}");
    }
}
