//! Who is logged in: a random cookie leads to a user's client, which has the token.
//!
//! Invariant: bounded in number, by user and in all, and in life: idle, from the beginning, and by the token's own end.
//! A cookie is kept as its digest alone; what has ended is found by nobody and ends the streams that it had.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::access::Access;
use crate::live::Live;
use crate::random::{self, Digest, NoRandomness, identifier};

/// Without a request for so long a session ends.
pub const IDLE: Duration = Duration::from_secs(30 * 60);
/// So long after log-in it ends whatever happens.
pub const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions of one user: of one more the one that was used longest ago ends.
pub const MOST_OF_ONE: usize = 5;
/// Most sessions of one party, likewise: whoever makes users in a namespace takes no place from others.
pub const MOST_OF_PARTY: usize = 10;
/// Requests of one party that are answered at once; more wait.
const AT_ONCE: usize = 3;
/// Namespaces that are remembered for a session.
const MOST_NAMESPACES: usize = 20;
/// For how long it is believed what a user may do.
const ACCESS_HOLDS: Duration = Duration::from_secs(60);

/// One user who is logged in.
pub struct Session {
    /// The user, as the API calls it.
    pub user: String,
    /// The user's client.
    pub client: Client,
    /// What each form of the session has to say.
    pub form_token: String,
    /// Watches, and who listens to them.
    pub live: Arc<Live>,
    /// Requests that are answered at once; sessions of one party share them.
    pub turns: Arc<Semaphore>,
    ended: watch::Sender<bool>,
    namespaces: Mutex<BTreeSet<String>>,
    access: Mutex<HashMap<String, (Instant, Arc<Access>)>>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Of a user with this client.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn new(user: &str, client: Client) -> Result<Self, NoRandomness> {
        Ok(Self {
            user: user.to_owned(),
            client,
            form_token: identifier()?,
            live: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            ended: watch::Sender::new(false),
            namespaces: Mutex::default(),
            access: Mutex::default(),
        })
    }

    /// Whether a form of this session sent that.
    #[must_use]
    pub fn is_form_token(&self, sent: &str) -> bool {
        random::of(sent) == random::of(&self.form_token)
    }

    /// Resolves when the session has ended. The future owns what it needs.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut receiver = self.ended.subscribe();
        async move {
            // A sender that is gone has ended too.
            let _ = receiver.wait_for(|ended| *ended).await;
        }
    }

    /// Namespaces where the user saw something, for the next time.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        lock(&self.namespaces).iter().cloned().collect()
    }

    /// Remembers a namespace where the user saw something.
    pub fn saw(&self, namespace: &str) {
        let mut all = lock(&self.namespaces);
        if all.len() < MOST_NAMESPACES {
            all.insert(namespace.to_owned());
        }
    }

    /// What the user may do in a namespace, if that was asked a short while ago.
    #[must_use]
    pub fn access(&self, namespace: &str, now: Instant) -> Option<Arc<Access>> {
        let all = lock(&self.access);
        let (read, access) = all.get(namespace)?;
        (now.duration_since(*read) < ACCESS_HOLDS).then(|| Arc::clone(access))
    }

    /// Remembers what the user may do in a namespace.
    pub fn set_access(&self, namespace: &str, access: &Arc<Access>, now: Instant) {
        let mut all = lock(&self.access);
        all.retain(|_, (read, _)| now.duration_since(*read) < ACCESS_HOLDS);
        if all.len() < MOST_NAMESPACES {
            all.insert(namespace.to_owned(), (now, Arc::clone(access)));
        }
    }

    fn end(&self) {
        self.ended.send_replace(true);
        self.live.end();
    }
}

struct Entry {
    session: Arc<Session>,
    used: Instant,
    ends: Instant,
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.ends || now.duration_since(self.used) >= IDLE
    }
}

/// Why nobody more is let in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoSession {
    /// So many are logged in already.
    #[error("too many people are logged in at once: try again later")]
    Full,
    /// See there.
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
}

/// All sessions. Clones share them.
#[derive(Clone)]
pub struct Sessions {
    entries: Arc<Mutex<HashMap<Digest, Entry>>>,
    most: usize,
}

impl Sessions {
    /// None yet, and never more than `most`.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            entries: Arc::default(),
            most,
        }
    }

    /// Begins one, which ends with the token (`lasts` from now, where that is known). Gives the cookie's value.
    ///
    /// # Errors
    /// [`NoSession`].
    pub fn begin(
        &self,
        mut session: Session,
        lasts: Option<Duration>,
        now: Instant,
    ) -> Result<String, NoSession> {
        let cookie = identifier()?;
        let mut entries = lock(&self.entries);
        sweep(&mut entries, now);
        let (user, of) = (session.user.clone(), party(&session.user).to_owned());
        let of_user = |entry: &Entry| entry.session.user == user;
        let of_party = |entry: &Entry| party(&entry.session.user) == of;
        make_place(&mut entries, MOST_OF_ONE, of_user);
        make_place(&mut entries, MOST_OF_PARTY, of_party);
        if let Some(other) = entries.values().find(|entry| of_party(entry)) {
            session.turns = Arc::clone(&other.session.turns);
        }
        if entries.len() >= self.most {
            return Err(NoSession::Full);
        }
        let lasts = lasts.unwrap_or(LONGEST).min(LONGEST);
        let entry = Entry {
            session: Arc::new(session),
            used: now,
            ends: now + lasts,
        };
        entries.insert(random::of(&cookie), entry);
        Ok(cookie)
    }

    /// The session of a cookie. `is_use` is false of what a page does by itself: nobody has touched it.
    #[must_use]
    pub fn find(&self, cookie: &str, is_use: bool, now: Instant) -> Option<Arc<Session>> {
        let mut entries = lock(&self.entries);
        let digest = random::of(cookie);
        let entry = entries.get_mut(&digest)?;
        if entry.is_over(now) {
            let over = entries.remove(&digest);
            over.into_iter().for_each(|entry| entry.session.end());
            return None;
        }
        if is_use {
            entry.used = now;
        }
        Some(Arc::clone(&entry.session))
    }

    /// Ends the session of a cookie.
    pub fn end(&self, cookie: &str) {
        let entry = lock(&self.entries).remove(&random::of(cookie));
        entry.into_iter().for_each(|entry| entry.session.end());
    }

    /// Ends what is over.
    pub fn sweep(&self, now: Instant) {
        sweep(&mut lock(&self.entries), now);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.entries).len()
    }
}

/// Who answers for a user: whoever can make one ServiceAccount of a namespace can make a thousand.
fn party(user: &str) -> &str {
    match user.starts_with("system:serviceaccount:") {
        true => user
            .rsplit_once(':')
            .map_or(user, |(namespace, _)| namespace),
        false => user,
    }
}

/// Ends the one that was used longest ago, where there are so many of them.
fn make_place(
    entries: &mut HashMap<Digest, Entry>,
    most: usize,
    is_theirs: impl Fn(&Entry) -> bool,
) {
    let theirs = || entries.iter().filter(|(_, entry)| is_theirs(entry));
    if theirs().count() < most {
        return;
    }
    let oldest = theirs().min_by_key(|(_, entry)| entry.used);
    let oldest = oldest.map(|(digest, _)| *digest);
    if let Some(entry) = oldest.and_then(|digest| entries.remove(&digest)) {
        entry.session.end();
    }
}

fn sweep(entries: &mut HashMap<Digest, Entry>, now: Instant) {
    entries.retain(|_, entry| {
        let is_over = entry.is_over(now);
        if is_over {
            entry.session.end();
        }
        !is_over
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
