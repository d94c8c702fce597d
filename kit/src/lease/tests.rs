//! Elections against a fake API server, on paused time.

use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};
use tower::BoxError;

use super::*;

/// One Lease with optimistic concurrency; may be cut off per client.
#[derive(Clone, Default)]
struct Server {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    lease: Option<Value>,
    version: u64,
    writes: u32,
    cut_off: Vec<&'static str>,
}

impl Server {
    fn client(&self, who: &'static str) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let method = request.method().clone();
                let bytes = request.into_body().collect().await?.to_bytes();
                if server.lock().cut_off.contains(&who) {
                    std::future::pending::<()>().await;
                }
                let (code, body) = server.lock().answer(&method, &bytes);
                let body = Full::new(Bytes::from(body.to_string()));
                Response::builder()
                    .status(code)
                    .body(body)
                    .map_err(BoxError::from)
            }
        });
        Client::new(service, "covey-system")
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    fn holder(&self) -> Option<String> {
        self.lock().lease.as_ref()?["spec"]["holderIdentity"]
            .as_str()
            .map(str::to_owned)
    }

    fn start(&self, who: &'static str) -> (Leadership, Election) {
        Election::start(self.client(who), config(who))
    }
}

fn config(who: &str) -> LeaseConfig {
    LeaseConfig {
        namespace: "covey-system".to_owned(),
        name: "operator".to_owned(),
        identity: who.to_owned(),
        timing: Timing::default(),
    }
}

impl Inner {
    fn answer(&mut self, method: &Method, body: &[u8]) -> (u16, Value) {
        let status = |code: u16| {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            (
                code,
                json!({ "kind": "Status", "code": code, "reason": reason }),
            )
        };
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let current = self
            .lease
            .as_ref()
            .map(|lease| &lease["metadata"]["resourceVersion"]);
        match (method, current) {
            (&Method::GET, Some(_)) => (200, self.lease.clone().unwrap()),
            (&Method::POST, Some(_)) => status(409),
            (&Method::PUT, Some(version)) if sent["metadata"]["resourceVersion"] != *version => {
                status(409)
            }
            (&Method::POST, None) | (&Method::PUT, Some(_)) => {
                self.version += 1;
                self.writes += 1;
                let mut lease = sent;
                lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.lease = Some(lease.clone());
                (200, lease)
            }
            _ => status(404),
        }
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_candidate_leads_at_once_and_keeps_renewing() {
    let server = Server::default();
    let start = Instant::now();
    let (leadership, _election) = server.start("a");
    assert_eq!(leadership.ensure(), Err(NotLeader));
    leadership.acquired().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    for _ in 0..60 {
        pass(1).await;
        assert_eq!(leadership.ensure(), Ok(()));
    }
    let writes = server.lock().writes;
    assert!(
        (29..=32).contains(&writes),
        "one write per retry span, not {writes}"
    );
    let spec = server.lock().lease.clone().unwrap()["spec"].clone();
    assert_eq!(spec["holderIdentity"], "a");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_within_one_retry_span() {
    let server = Server::default();
    let (first, election) = server.start("a");
    first.acquired().await;
    let (second, _second_election) = server.start("b");
    pass(5).await;
    assert!(first.is_leader() && !second.is_leader());
    let start = Instant::now();
    election.release().await;
    assert!(!first.is_leader());
    assert_eq!(server.holder().as_deref(), Some(""));
    second.acquired().await;
    assert!(
        start.elapsed() <= Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(server.holder().as_deref(), Some("b"));
    assert_eq!(
        server.lock().lease.clone().unwrap()["spec"]["leaseTransitions"],
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_leads() {
    let server = Server::default();
    let (first, _first_election) = server.start("a");
    first.acquired().await;
    let (second, _second_election) = server.start("b");
    pass(5).await;
    let cut = Instant::now();
    server.lock().cut_off.push("a");
    first.lost().await;
    let stopped = Instant::now();
    assert!(stopped - cut <= Duration::from_secs(10));
    assert!(!second.is_leader());
    second.acquired().await;
    let margin = Instant::now() - stopped;
    assert!(margin >= Duration::from_secs(4), "{margin:?}");
    assert!(
        cut.elapsed() <= Duration::from_secs(20),
        "{:?}",
        cut.elapsed()
    );
    // Back again, the first one follows.
    server.lock().cut_off.clear();
    for _ in 0..40 {
        pass(1).await;
        assert!(!first.is_leader() && second.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_an_outage_shorter_than_its_deadline() {
    let server = Server::default();
    let (leadership, _election) = server.start("a");
    leadership.acquired().await;
    server.lock().cut_off.push("a");
    pass(4).await;
    server.lock().cut_off.clear();
    for _ in 0..30 {
        pass(1).await;
        assert!(leadership.is_leader());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_the_leadership_at_the_next_renewal() {
    let server = Server::default();
    let (leadership, _election) = server.start("a");
    leadership.acquired().await;
    let stolen = json!({
        "metadata": { "name": "operator", "resourceVersion": "900" },
        "spec": { "holderIdentity": "thief", "leaseDurationSeconds": 15 },
    });
    server.lock().lease = Some(stolen);
    let start = Instant::now();
    assert!(!leadership.changed().await);
    assert!(
        start.elapsed() <= Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(server.holder().as_deref(), Some("thief"));
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_exactly_one_leads_at_any_time() {
    let server = Server::default();
    let mut candidates: Vec<_> = ["a", "b", "c", "d"].map(|who| server.start(who)).into();
    pass(3).await;
    for _ in 0..4 {
        let leaders = || {
            candidates
                .iter()
                .filter(|(leadership, _)| leadership.is_leader())
                .count()
        };
        assert_eq!(leaders(), 1);
        let leader = candidates
            .iter()
            .position(|(leadership, _)| leadership.is_leader())
            .unwrap();
        // A crash: nothing is released.
        drop(candidates.remove(leader));
        for _ in 0..25 {
            pass(1).await;
            let leaders = candidates.iter().filter(|(l, _)| l.is_leader()).count();
            assert!(leaders <= 1);
        }
    }
    assert!(candidates.is_empty());
}

#[tokio::test(start_paused = true)]
async fn releasing_what_another_holds_writes_nothing() {
    let server = Server::default();
    let (first, _first_election) = server.start("a");
    first.acquired().await;
    let (_second, election) = server.start("b");
    pass(3).await;
    election.release().await;
    assert!(first.is_leader());
    assert_eq!(server.holder().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_release_during_doubt_still_clears_the_holder() {
    let server = Server::default();
    let (leadership, election) = server.start("a");
    leadership.acquired().await;
    server.lock().cut_off.push("a");
    pass(7).await;
    server.lock().cut_off.clear();
    election.release().await;
    assert_eq!(server.holder().as_deref(), Some(""));
}

#[tokio::test]
async fn work_of_a_revoked_claim_passes_no_fence_and_all_else_does() {
    let (leadership, claim) = (Leadership::always(), Claim::default());
    assert!(claim.is_idle());
    let (seen, is_busy) = claim
        .clone()
        .scope(async {
            let before = leadership.ensure().is_ok();
            claim.revoke();
            ((before, leadership.ensure().is_ok()), !claim.is_idle())
        })
        .await;
    assert_eq!(seen, (true, false));
    assert!(is_busy, "what runs in it has it");
    assert!(claim.is_idle(), "and gives it back");
    leadership.ensure().expect("nothing else is stopped by it");
}

#[tokio::test]
async fn what_is_spawned_takes_the_claim_along() {
    let claim = Claim::default();
    let spawned = claim.clone().scope(async { Claim::current() }).await;
    assert!(!claim.is_idle());
    claim.revoke();
    assert!(spawned.is_some_and(|spawned| spawned.is_revoked()));
    assert!(claim.is_idle());
    assert!(Claim::current().is_none());
}

#[tokio::test(start_paused = true)]
async fn who_let_a_seat_lapse_never_holds_it_again() {
    let server = Server::default();
    let (leadership, candidate) = Candidate::new();
    let (notes, said) = watch::channel(Notes::default());
    let client = server.client("a");
    let (_election, seat) = candidate.campaign_for_a_seat(&client, vec![config("a")], said);
    leadership.acquired().await;
    assert_eq!(seat.borrow().as_deref(), Some("operator"));
    let said = |server: &Server| server.lock().lease.clone().unwrap()["metadata"].clone();
    assert!(said(&server)["annotations"]["a"].is_null());
    let annotations = [("a".to_owned(), "b".to_owned())].into();
    notes.send_modify(|notes| notes.annotations = annotations);
    pass(1).await;
    assert_eq!(said(&server)["annotations"]["a"], "b", "at once");
    server.lock().cut_off.push("a");
    pass(11).await;
    assert!(!leadership.is_leader());
    server.lock().cut_off.clear();
    pass(60).await;
    assert!(
        !leadership.is_leader(),
        "others may do by now what it did, and nothing in the Lease says so"
    );
}

#[tokio::test(start_paused = true)]
async fn who_leads_by_a_lease_of_long_ago_says_so_and_the_next_one_knows_it() {
    let server = Server::default();
    server.lock().lease = Some(json!({
        "metadata": { "name": "operator", "resourceVersion": "900" },
        "spec": { "holderIdentity": "", "renewTime": "2024-01-01T00:00:00.000000Z" },
    }));
    let (leadership, election) = server.start("a");
    assert_eq!(leadership.gap(), None);
    leadership.acquired().await;
    let gap = leadership.gap().unwrap();
    assert_eq!(gap.from, "2024-01-01T00:00:00Z".parse().ok());
    election.release().await;
    let (next, _election) = server.start("b");
    next.acquired().await;
    assert_eq!(next.gap(), Some(gap));
    pass(5).await;
    assert_eq!(next.gap(), Some(gap), "renewals change nothing of it");
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_goes_back_to_an_older_state_says_so() {
    let server = Server::default();
    let (leadership, _election) = server.start("a");
    leadership.acquired().await;
    let first = leadership.gap().unwrap();
    assert_eq!(first.from, None, "there was none");
    pass(3).await;
    {
        // Without what was said in it, and with a version that is not ours.
        let mut inner = server.lock();
        let lease = inner.lease.as_mut().unwrap();
        lease["metadata"] = json!({ "name": "operator", "resourceVersion": "old" });
        lease["spec"]["renewTime"] = json!("2024-01-01T00:00:00.000000Z");
    }
    pass(5).await;
    assert!(leadership.is_leader());
    let gap = leadership.gap().unwrap();
    assert!(gap.to > first.to, "{gap:?}");
}
