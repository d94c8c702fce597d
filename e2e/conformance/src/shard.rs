//! A part of the published list, so that it can be run on machines with little time.
//!
//! Invariant: pure; each name of a list is in exactly one of `N` shards, whatever order the list has.

use std::{collections::BTreeSet, str::FromStr};

use anyhow::{Context as _, Result, ensure};

/// `I/N`, from 1 on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Shard {
    number: usize,
    of: usize,
}

/// The longest argument that Linux hands to a program is 128 KiB (`MAX_ARG_STRLEN`).
const LONGEST: usize = 128 * 1024;

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let way = "write I/N, as 1/4 for the first of four parts";
        let (number, of) = text.split_once('/').context(way)?;
        let (number, of) = (
            number.parse::<usize>().context(way)?,
            of.parse::<usize>().context(way)?,
        );
        ensure!((1..=of).contains(&number), "{way}");
        Ok(Self { number, of })
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Its names of a list.
    pub(crate) fn names<'a>(self, listed: &'a [String]) -> Vec<&'a str> {
        let sorted: BTreeSet<&'a str> = listed.iter().map(String::as_str).collect();
        let mine = sorted.into_iter().skip(self.number - 1).step_by(self.of);
        mine.collect()
    }

    /// An expression that matches these names to their end, for ginkgo, which puts the suite's own name in front.
    ///
    /// # Errors
    /// When it would be too long for an argument: more shards are shorter.
    pub(crate) fn focus(self, listed: &[String]) -> Result<String> {
        let names = self.names(listed);
        ensure!(!names.is_empty(), "there is no test in shard {self}");
        let names: Vec<_> = names.into_iter().map(quote).collect();
        let focus = format!("(?:{})$", names.join("|"));
        ensure!(
            focus.len() < LONGEST,
            "the names of shard {self} are too long for a command line: take more shards"
        );
        Ok(focus)
    }
}

/// As Go's `regexp.QuoteMeta`.
fn quote(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len());
    for c in name.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed() -> Vec<String> {
        (0..7)
            .map(|n| format!("[sig-a] test {n} (x.y) [Conformance]"))
            .collect()
    }

    #[test]
    fn each_test_is_in_exactly_one_shard() {
        let listed = listed();
        for of in 1..=7 {
            let mut all = Vec::new();
            for number in 1..=of {
                let shard = Shard { number, of };
                all.extend(shard.names(&listed).into_iter().map(str::to_owned));
            }
            all.sort();
            assert_eq!(all, listed, "{of} shards");
        }
        let mut turned = listed.clone();
        turned.reverse();
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!(shard.names(&listed), shard.names(&turned));
    }

    #[test]
    fn names_are_quoted_and_matched_to_their_end() {
        let shard: Shard = "1/7".parse().unwrap();
        let focus = shard.focus(&listed()).unwrap();
        assert_eq!(focus, r"(?:\[sig-a\] test 0 \(x\.y\) \[Conformance\])$");
        assert!("8/8".parse::<Shard>().unwrap().focus(&listed()).is_err());
    }

    #[test]
    fn a_list_that_is_too_long_for_one_argument_is_refused() {
        let long: Vec<_> = (0..2000)
            .map(|n| format!("[sig-a] {n} {}", "x".repeat(90)))
            .collect();
        let one: Shard = "1/1".parse().unwrap();
        assert!(one.focus(&long).is_err());
        let four: Shard = "1/4".parse().unwrap();
        assert!(four.focus(&long).is_ok());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for wrong in ["", "1", "0/4", "5/4", "a/4", "1/0", "-1/4"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
