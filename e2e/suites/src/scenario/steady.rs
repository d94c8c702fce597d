//! A client that asks a tenant's API steadily and forgives nothing: per second 20 GETs, 20 PUTs
//! and 20 WATCHes, each with a time-out of one second and none tried again.
//!
//! Requests begin at their time whether or not earlier ones have been answered, so a slow answer
//! hides no other. A WATCH counts once its first event came, and then ends, which closes its
//! connection where that is one of HTTP/1.1: so twenty new connections a second are part of it.
//! Invariant: every request is counted once, as answered or as failed, but those that are still
//! under way when the client is told to end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kit_client::transport::transport;
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams, WatchEvent, WatchParams},
    config::Kubeconfig,
};
use tokio::task::{JoinHandle, JoinSet};

/// Time between two requests of one kind.
const PERIOD: Duration = Duration::from_millis(50);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// Kinds of failures that are told apart; further ones are counted and not told.
const KINDS: usize = 50;
/// Objects that are written in turn, so that two writes at a time are not of the same one: the API
/// server would try the later of them again by itself, which is its time and not the client's.
const OBJECTS: u64 = 40;

/// What is spoken, and what is tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wire {
    /// HTTP/1.1; nothing is tried again.
    Http1,
    /// HTTP/1.1 with what kube tries again by default: answers 429, 503 and 504.
    Http1WithRetry,
    /// HTTP/2, as the operator speaks it; nothing is tried again.
    Http2,
}

impl Wire {
    /// What names of its objects begin with: two clients beside each other write different ones.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Http1 => "steady",
            Self::Http1WithRetry => "steady-retry",
            Self::Http2 => "steady-http2",
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verb {
    /// Reads the object.
    Get,
    /// Writes it, with another value each time.
    Put,
    /// Opens a watch of it and waits for the first event.
    Watch,
}

/// What became of the requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Answered within a second.
    pub answered: u64,
    /// Not.
    pub failed: u64,
    /// Longest time between two successes, the begin and the end counting as such.
    pub gap: Duration,
    /// When what was last answered was answered.
    last: Option<Instant>,
}

/// What became of all requests.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// By kind.
    pub verbs: BTreeMap<Verb, Tally>,
    /// Failures by kind and error.
    failures: BTreeMap<String, Failures>,
}

/// Failures of one kind.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u64,
    /// Seconds since the begin.
    first: f64,
    last: f64,
}

impl Outcome {
    /// Requests that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.verbs.values().map(|tally| tally.failed).sum()
    }

    /// Requests that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.verbs.values().map(|tally| tally.answered).sum()
    }

    /// Failures in words, by kind and error: how many, and from when to when in seconds.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let words = |(what, f): (&String, &Failures)| {
            format!("{} × {what} ({:.1} s to {:.1} s)", f.count, f.first, f.last)
        };
        self.failures.iter().map(words).collect()
    }

    /// Longest time in which one kind of request had no success.
    #[must_use]
    pub fn gap(&self) -> Duration {
        let gaps = self.verbs.values().map(|tally| tally.gap);
        gaps.max().unwrap_or_default()
    }

    /// Fails unless every request was answered, and `least` were.
    ///
    /// # Errors
    /// With the failures.
    pub fn flawless(&self, least: u64) -> Result<()> {
        let (failed, answered) = (self.failed(), self.answered());
        ensure!(
            failed == 0,
            "{failed} requests failed, {answered} were answered:\n{}",
            self.failures().join("\n")
        );
        ensure!(answered >= least, "only {answered} requests were made");
        Ok(())
    }
}

/// The client at work.
pub struct Steady {
    shared: Arc<Mutex<Outcome>>,
    task: JoinHandle<()>,
    begun: Instant,
}

impl Steady {
    /// Starts asking over HTTP/1.1, with a client of its own.
    ///
    /// # Errors
    /// As those of [`Self::start_over`].
    pub async fn start(kubeconfig: &str) -> Result<Self> {
        Self::start_over(kubeconfig, Wire::Http1).await
    }

    /// Starts asking, with a client of its own.
    ///
    /// # Errors
    /// When the object that it asks for cannot be made.
    pub async fn start_over(kubeconfig: &str, wire: Wire) -> Result<Self> {
        let mut config =
            Config::from_custom_kubeconfig(Kubeconfig::from_yaml(kubeconfig)?, &Default::default())
                .await?;
        config.default_retry = wire == Wire::Http1WithRetry;
        config.connect_timeout = Some(ANSWER);
        let client = match wire {
            Wire::Http2 => Client::new(transport(&config)?, config.default_namespace),
            Wire::Http1 | Wire::Http1WithRetry => {
                Client::try_from(config).context("no client of the kubeconfig")?
            }
        };
        let objects = Objects {
            maps: Api::namespaced(client, "default"),
            prefix: wire.prefix(),
        };
        let maps = &objects.maps;
        for number in 0..OBJECTS {
            match maps
                .create(&PostParams::default(), &objects.map(number))
                .await
            {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error).context("create the ConfigMaps that are written"),
            }
        }
        let begun = Instant::now();
        let fresh = || Tally {
            last: Some(begun),
            ..Tally::default()
        };
        let verbs = [Verb::Get, Verb::Put, Verb::Watch].map(|verb| (verb, fresh()));
        let shared = Arc::new(Mutex::new(Outcome {
            verbs: verbs.into(),
            failures: BTreeMap::new(),
        }));
        let task = tokio::spawn(ask(objects, Arc::clone(&shared), begun));
        Ok(Self {
            shared,
            task,
            begun,
        })
    }

    /// How it stands.
    #[must_use]
    pub fn so_far(&self) -> Outcome {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Ends it and says what became of all requests.
    ///
    /// # Errors
    /// When it ended by itself, which is a bug.
    pub async fn finish(self) -> Result<Outcome> {
        if self.task.is_finished() {
            bail!("the steady client ended by itself");
        }
        self.task.abort();
        let _ = self.task.await;
        let mut outcome = self
            .shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let now = Instant::now();
        for tally in outcome.verbs.values_mut() {
            let last = tally.last.unwrap_or(self.begun);
            tally.gap = tally.gap.max(now - last);
        }
        Ok(outcome)
    }
}

/// What one client asks for.
#[derive(Clone)]
struct Objects {
    maps: Api<ConfigMap>,
    prefix: &'static str,
}

async fn ask(objects: Objects, shared: Arc<Mutex<Outcome>>, begun: Instant) {
    let mut ticks = tokio::time::interval(PERIOD);
    let mut pending = JoinSet::new();
    for number in 1_u64.. {
        ticks.tick().await;
        for verb in [Verb::Get, Verb::Put, Verb::Watch] {
            let (objects, shared) = (objects.clone(), Arc::clone(&shared));
            pending.spawn(async move {
                let answer = tokio::time::timeout(ANSWER, objects.request(verb, number)).await;
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(_) => Err(anyhow::anyhow!("no answer within {ANSWER:?}")),
                };
                note(&shared, begun, verb, answer);
            });
        }
        while pending.try_join_next().is_some() {}
    }
}

impl Objects {
    async fn request(&self, verb: Verb, number: u64) -> Result<()> {
        // The one that is read and watched.
        let read = self.name(0);
        let maps = &self.maps;
        match verb {
            Verb::Get => maps.get(&read).await.map(drop)?,
            // Without a resource version: the last one wins.
            Verb::Put => maps
                .replace(
                    &self.name(number),
                    &PostParams::default(),
                    &self.map(number),
                )
                .await
                .map(drop)?,
            Verb::Watch => {
                let only = WatchParams::default().fields(&format!("metadata.name={read}"));
                let mut events = Box::pin(maps.watch(&only, "0").await?);
                match events.next().await {
                    Some(Ok(WatchEvent::Added(_) | WatchEvent::Modified(_))) => {}
                    Some(Ok(other)) => bail!("the first event is {other:?}"),
                    Some(Err(error)) => return Err(error.into()),
                    None => bail!("the watch ended without an event"),
                }
            }
        }
        Ok(())
    }

    fn name(&self, number: u64) -> String {
        format!("{}-{}", self.prefix, number % OBJECTS)
    }

    fn map(&self, number: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.name(number)),
                ..ObjectMeta::default()
            },
            data: Some([("number".to_owned(), number.to_string())].into()),
            ..ConfigMap::default()
        }
    }
}

fn note(shared: &Mutex<Outcome>, begun: Instant, verb: Verb, answer: Result<()>) {
    let mut outcome = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let tally = outcome.verbs.entry(verb).or_default();
    match answer {
        Ok(()) => {
            tally.answered += 1;
            if let Some(last) = tally.last {
                tally.gap = tally.gap.max(now - last);
            }
            tally.last = Some(now);
        }
        Err(error) => {
            tally.failed += 1;
            let at = (now - begun).as_secs_f64();
            let what = format!("{verb:?}: {error:#}");
            let failures = &mut outcome.failures;
            if let Some(found) = failures.get_mut(&what) {
                found.count += 1;
                found.last = at;
            } else if failures.len() < KINDS {
                let first = Failures {
                    count: 1,
                    first: at,
                    last: at,
                };
                failures.insert(what, first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_no_success_and_makes_the_gap_longer() {
        let begun = Instant::now();
        let shared = Mutex::new(Outcome::default());
        note(&shared, begun, Verb::Get, Ok(()));
        let first = shared.lock().unwrap().verbs[&Verb::Get].last.unwrap();
        note(&shared, begun, Verb::Get, Err(anyhow::anyhow!("refused")));
        note(&shared, begun, Verb::Get, Ok(()));
        let outcome = shared.into_inner().unwrap();
        let tally = &outcome.verbs[&Verb::Get];
        assert_eq!((tally.answered, tally.failed), (2, 1));
        assert_eq!(tally.gap, tally.last.unwrap() - first);
        assert!(outcome.flawless(1).is_err());
        assert!(outcome.failures()[0].starts_with("1 × Get: refused ("));
    }

    #[test]
    fn a_client_that_asked_nothing_proves_nothing() {
        assert!(Outcome::default().flawless(1).is_err());
    }
}
