//! What sessions with machines that are reached by SSH say of their location: the first signal where there is no API of
//! a provider.
//!
//! Invariant: whoever answers, with a refusal too, is there; a session that never came to the machine says nothing; and
//! one machine alone takes no location for lost. Source: clouds.md 11.3, row "Hosts".

use std::time::Duration;

/// So long a machine whose node is heard has to fail, over two tries or more, before it counts: as long as the API of a
/// provider ([`crate::circuit`]).
pub const FAILS_FOR: Duration = Duration::from_secs(20);
/// A failure is heard for so long: whoever failed is tried again every five minutes, with its time limits.
pub const KNOWN_FOR: Duration = Duration::from_secs(15 * 60);
/// Who is silent is tried so often at most, only to know whether it answers.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);

/// What came of a try to open a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Word {
    /// A session was opened.
    Answers,
    /// Its SSH server, or that of a jump host, showed another key or refused ours: somebody is there.
    Refuses,
    /// Nobody answered, by any of its ways.
    Fails,
}

/// All that is known of the ways to one machine, by a monotonic clock of the caller that began at zero.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Contact {
    last: Option<(Word, Duration)>,
    failing_since: Option<Duration>,
    tried: Option<Duration>,
}

/// One machine of a location.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Host {
    /// What sessions said.
    pub contact: Contact,
    /// Its node says nothing, at the first look at least, and that is believed.
    pub is_silent: bool,
}

impl Contact {
    /// A session is tried now, whatever comes of it.
    pub fn on_try(&mut self, now: Duration) {
        self.tried = Some(now);
    }

    /// What came of it; none where it says nothing of the machine.
    pub fn on_end(&mut self, word: Option<Word>, now: Duration) {
        self.tried = Some(now);
        let Some(word) = word else {
            return;
        };
        let is_failing = word == Word::Fails;
        // A failure that nobody remembers is no beginning of this one.
        let before = self.failing_since.filter(|_| self.word(now).is_some());
        self.failing_since = before.or(Some(now)).filter(|_| is_failing);
        self.last = Some((word, now));
    }

    /// What it said last; none where nobody knows any more.
    fn word(&self, now: Duration) -> Option<Word> {
        let (word, at) = self.last?;
        let is_old = now.saturating_sub(at) > KNOWN_FOR;
        (word != Word::Fails || !is_old).then_some(word)
    }

    /// How long it is proven to fail: from the first to the last failure in a row.
    fn fails_for(&self, now: Duration) -> Option<Duration> {
        let is_failing = self.word(now) == Some(Word::Fails);
        let (_, at) = self.last.filter(|_| is_failing)?;
        Some(at.saturating_sub(self.failing_since?))
    }
}

impl Host {
    /// What it counts as. One failure is enough where the node is silent, too: those are two signals.
    fn counts(&self, now: Duration) -> Option<Word> {
        match self.contact.fails_for(now) {
            Some(for_) if self.is_silent || for_ >= FAILS_FOR => Some(Word::Fails),
            // It is tried again soon.
            Some(_) => None,
            None => self.contact.word(now),
        }
    }

    /// Whether it is tried now, for nothing but to know whether it answers. `is_out`: its location is, and not back.
    /// Who refused us is left to those who have something to do there: each further try brings it nearer to locking us
    /// out.
    #[must_use]
    pub fn is_probe_due(&self, is_out: bool, now: Duration) -> bool {
        let word = self.contact.word(now);
        let is_worth_it = self.is_silent || is_out && word != Some(Word::Answers);
        let rests = |tried: Duration| now.saturating_sub(tried) >= PROBE_EVERY;
        is_worth_it && word != Some(Word::Refuses) && self.contact.tried.is_none_or(rests)
    }
}

/// Whether a location answers, by all its machines that have nodes; none where that is not known, and then it is as it
/// was. Where there is but one, it does: the loss of one machine is an ordinary one.
#[must_use]
pub fn answers(hosts: &[Host], now: Duration) -> Option<bool> {
    let count = |word: Option<Word>| hosts.iter().filter(|h| h.counts(now) == word).count();
    let is_half = |count: usize| count >= 2 && count >= hosts.len().div_ceil(2);
    let (fail, unknown) = (count(Some(Word::Fails)), count(None));
    if is_half(fail) {
        return Some(false);
    }
    (!is_half(fail + unknown)).then_some(true)
}

#[cfg(test)]
mod tests;
