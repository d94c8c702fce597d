//! Names and addresses of an archive, put in the place of which stands a keyed hash of each.
//!
//! Invariant: pure. The same name has the same hash for as long as the key is the same, nobody without the key can try
//! names, and what a hash stands for is told to the user alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use ring::hmac;

/// Bytes of a hash that are shown: so few that it can be read, so many that no two names of an installation meet.
const SHOWN: usize = 5;

/// Puts hashes in the place of names and addresses.
#[derive(Debug)]
pub(crate) struct Mask {
    key: hmac::Key,
    /// Names by their first word, the longest first.
    names: BTreeMap<String, Vec<String>>,
    /// What each hash stands for.
    told: Mutex<BTreeMap<String, String>>,
}

impl Mask {
    /// With this key, of these names.
    pub(crate) fn new(key: &[u8], names: impl IntoIterator<Item = String>) -> Self {
        let names: BTreeSet<_> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let mut by_word: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in names {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric());
            let word = name[..end.unwrap_or(name.len())].to_owned();
            by_word.entry(word).or_default().push(name);
        }
        for names in by_word.values_mut() {
            names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        }
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            names: by_word,
            told: Mutex::default(),
        }
    }

    /// The text without names and addresses. A name is one wherever no letter or digit stands beside it.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while !rest.is_empty() {
            if let Some((found, hash)) = self.address(rest).or_else(|| self.name(rest)) {
                out.push_str(&hash);
                rest = &rest[found..];
                continue;
            }
            // On to the next place where something may begin.
            let word = rest.find(|c: char| !c.is_ascii_alphanumeric());
            let word = word.unwrap_or(rest.len());
            let gap = rest[word..].find(|c: char| c.is_ascii_alphanumeric() || c == ':');
            let gap = match gap {
                // What is no address is left as it is.
                Some(0) => 1,
                Some(gap) => gap,
                None => rest.len() - word,
            };
            let (before, after) = rest.split_at(word + gap);
            out.push_str(before);
            rest = after;
        }
        out
    }

    /// What each hash stands for, a line for each.
    pub(crate) fn told(&self) -> String {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = told.iter().map(|(hash, name)| format!("{hash} {name}\n"));
        lines.collect()
    }

    /// The name that the text begins with: how long it is, and its hash.
    fn name(&self, text: &str) -> Option<(usize, String)> {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric());
        let names = self.names.get(&text[..end.unwrap_or(text.len())])?;
        let is_whole = |name: &&String| {
            let after = text.strip_prefix(name.as_str());
            let after = after.map(|after| after.chars().next());
            after.is_some_and(|next| next.is_none_or(|c| !c.is_ascii_alphanumeric()))
        };
        let name = names.iter().find(is_whole)?;
        Some((name.len(), self.hash("name", name)))
    }

    /// The IP address that the text begins with.
    fn address(&self, text: &str) -> Option<(usize, String)> {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let is_word = text[end..].starts_with(|c: char| c.is_ascii_alphanumeric());
        let run = &text[..end];
        let whole = run.trim_end_matches(['.', ':']);
        // A port may stand behind it, and the end of a sentence.
        let v4 = whole.split(':').next().unwrap_or_default();
        if v4.parse::<Ipv4Addr>().is_ok() && (!is_word || v4.len() < end) {
            return Some((v4.len(), self.hash("address", v4)));
        }
        let both = [run, whole];
        let v6 = both
            .into_iter()
            .find(|v6| v6.len() > 2 && v6.parse::<Ipv6Addr>().is_ok());
        let v6 = v6.filter(|_| !is_word)?;
        Some((v6.len(), self.hash("address", v6)))
    }

    fn hash(&self, kind: &str, of: &str) -> String {
        let tag = hmac::sign(&self.key, of.as_bytes());
        let hex = tag.as_ref().iter().take(SHOWN).map(|b| format!("{b:02x}"));
        let hash = format!("{kind}-{}", hex.collect::<String>());
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(hash.clone(), of.to_owned());
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(key: &[u8]) -> Mask {
        let names = ["demo", "demo-workers", "team-a", "shop.example.com"];
        Mask::new(key, names.map(str::to_owned))
    }

    #[test]
    fn no_name_and_no_address_is_left() {
        let mask = mask(b"k");
        let text = "team-a/demo: pod covey-demo-0a1b at 10.96.3.7:6443, [2001:db8::7]:6443, demo-workers-x2k9p; \
shop.example.com. 192.0.2.1, \"2001:db8::7\"";
        let masked = mask.text(text);
        for secret in [
            "demo", "team-a", "example", "10.96", "192.0", "2001", "workers",
        ] {
            assert!(!masked.contains(secret), "{secret}: {masked}");
        }
        for kept in ["pod covey-name-", ":6443", "-x2k9p; ", "/name-"] {
            assert!(masked.contains(kept), "{kept}: {masked}");
        }
    }

    #[test]
    fn what_is_neither_stays() {
        for text in [
            "democracy in 2026-11-27T12:00:00Z, 1.35.4 and ::",
            "0a1b2c3d-1111-4222-8333-444455556666: ä 10.96.3",
            "{\"a\": [1, 2.5]}\n::\n",
        ] {
            assert_eq!(mask(b"k").text(text), text);
        }
    }

    #[test]
    fn the_same_is_the_same_with_the_same_key_and_the_user_can_tell() {
        let (first, other) = (mask(b"k"), mask(b"l"));
        assert_eq!(first.text("demo"), mask(b"k").text("demo"));
        assert_ne!(first.text("demo"), other.text("demo"));
        let told = first.told();
        assert_eq!(told, format!("{} demo\n", first.text("demo")));
    }
}
