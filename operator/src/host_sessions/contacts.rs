//! Who answers by SSH: what sessions say that are opened anyway, and tries of those whose nodes are silent.
//!
//! Invariant: a try opens a session and asks for nothing; it never delays an errand, and of one Host there is one at a
//! time. What follows from words is decided in `placement::sites`.

use std::sync::Arc;
use std::time::Duration;

use api::Host;
use kit::lease::Claim;
use kit::panics;
use kube::{Client, ResourceExt};
use placement::sites::{Contact, Word};
use provider_static::session::{AddressRules, Connector, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Sessions, Shared, keys};
use crate::reserved_ranges::ReservedRanges;

/// Machines that are tried at once, of the 32 sessions that there may be.
pub(super) const TRIES: usize = 16;
/// A try altogether, by all ways and with the wait for its turn.
const PATIENCE: Duration = Duration::from_secs(25);

/// What a session that was to be opened says of its machine; none where nothing.
pub(super) fn word<T>(opened: &Result<T, Error>) -> Option<Word> {
    let Err(error) = opened else {
        return Some(Word::Answers);
    };
    match error {
        Error::WrongHostKey { .. } | Error::NoHostKey { .. } | Error::LoginRefused { .. } => {
            Some(Word::Refuses)
        }
        Error::Unreachable { .. } | Error::TimedOut { .. } | Error::Forward { .. } => {
            Some(Word::Fails)
        }
        // Something took the connection and let go of it: a server that is overrun, or what stands before a dead one.
        Error::Protocol { .. }
        | Error::Forbidden { .. }
        | Error::Busy { .. }
        | Error::Cut { .. }
        | Error::Stuck { .. }
        | Error::TooMuchOutput { .. }
        | Error::NotRoot { .. }
        | Error::Failed { .. }
        | Error::Answer { .. }
        | Error::Digest { .. }
        | Error::NoRoom { .. }
        | Error::Source(_) => None,
    }
}

impl Shared {
    /// Notes what a session said.
    pub(super) fn hear(&self, host: &Host, word: Option<Word>) {
        let now = self.began.elapsed();
        let uid = host.uid().unwrap_or_default();
        // One that was forgotten meanwhile stays so.
        if let Some(known) = self.lock().get_mut(&uid) {
            known.contact.on_end(word, now);
        }
    }

    fn end(&self, host: &Host, word: Option<Word>) {
        self.hear(host, word);
        if let Some(known) = self.lock().get_mut(&host.uid().unwrap_or_default()) {
            known.is_tried = false;
        }
    }
}

impl Sessions {
    /// What the times of [`Self::contact`] are compared with.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.began.elapsed()
    }

    /// What is known of the ways to a Host's machine.
    #[must_use]
    pub fn contact(&self, uid: &str) -> Contact {
        let hosts = self.shared.lock();
        hosts
            .get(uid)
            .map(|known| known.contact)
            .unwrap_or_default()
    }

    /// Tries whether a machine answers, unless a session with it is under way or all places are taken; then it stays due.
    pub fn try_contact(&self, host: &Arc<Host>) {
        let Ok(place) = Arc::clone(&self.tries).try_acquire_owned() else {
            return;
        };
        let mut hosts = self.shared.lock();
        let known = hosts.entry(host.uid().unwrap_or_default()).or_default();
        if known.running.is_some() || known.is_tried {
            return;
        }
        known.is_tried = true;
        known.contact.on_try(self.shared.began.elapsed());
        drop(hosts);
        let attempt = Attempt {
            client: self.client.clone(),
            ranges: Arc::clone(&self.ranges),
            connector: Arc::clone(&self.connector),
            reads: Arc::clone(&self.reads),
            host: Arc::clone(host),
            _place: place,
        };
        let (shared, claim) = (Arc::clone(&self.shared), Claim::current());
        let task = async move {
            let word = panics::contained(Box::pin(attempt.word())).await;
            shared.end(&attempt.host, word.ok().flatten());
        };
        // What it is part of has not ended before it has.
        tokio::spawn(async move {
            match claim {
                Some(claim) => claim.scope(task).await,
                None => task.await,
            }
        });
    }
}

/// One try.
struct Attempt {
    client: Client,
    ranges: Arc<ReservedRanges>,
    connector: Arc<Connector>,
    reads: Arc<Semaphore>,
    host: Arc<Host>,
    _place: OwnedSemaphorePermit,
}

impl Attempt {
    async fn word(&self) -> Option<Word> {
        let opened = tokio::time::timeout(PATIENCE, Box::pin(self.open())).await;
        // Whose time it was that ran out is not known: each hop has a limit of its own, which is shorter.
        opened.ok().flatten()
    }

    async fn open(&self) -> Option<Word> {
        let settings = self.ranges.settings();
        if settings.network.reserved_unknown.is_some() {
            return None;
        }
        let target = {
            let _place = self.reads.acquire().await;
            keys::target(&self.client, &self.host).await.ok()?
        };
        let rules = AddressRules::outside(settings.network.reserved.iter().copied());
        word(&Box::pin(self.connector.connect_by(&target, &rules)).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOP: &str = "192.0.2.1:22";

    fn of(error: Error) -> Option<Word> {
        word::<()>(&Err(error))
    }

    #[test]
    fn who_refuses_is_there_and_who_was_never_asked_says_nothing() {
        let hop = || HOP.to_owned();
        let field = "Host.spec.hostKeys";
        let user = hop();
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(word(&Ok(())), Some(Word::Answers));
        for error in [
            Error::WrongHostKey {
                hop: hop(),
                seen: hop(),
                field,
            },
            Error::NoHostKey { hop: hop() },
            Error::LoginRefused { hop: hop(), user },
        ] {
            assert_eq!(of(error), Some(Word::Refuses));
        }
        let limit = Duration::from_secs(10);
        for error in [
            Error::Unreachable {
                hop: hop(),
                source: refused,
            },
            Error::TimedOut {
                hop: hop(),
                stage: "answer",
                limit,
            },
            Error::Forward {
                via: hop(),
                hop: hop(),
            },
        ] {
            assert_eq!(of(error), Some(Word::Fails));
        }
        for error in [
            Error::Busy { places: "sessions" },
            Error::Forbidden {
                hop: hop(),
                address: hop(),
            },
            Error::Protocol {
                hop: hop(),
                said: hop(),
            },
        ] {
            assert_eq!(of(error), None);
        }
    }
}
