//! Whether a release of KubeVirt has published holes (pure).
//!
//! Invariant: only a version that can be read, and that is older than a release with the fixes, is called
//! outdated; of one that cannot be read (a build of somebody's own, say) nothing is known.
//!
//! | Published | What | Fixed in |
//! |---|---|---|
//! | CVE-2025-64324 | a disk of the host reads and writes any file of it | 1.6.1, 1.7.0 |
//! | CVE-2025-64432 | virt-api believes headers of who has no certificate | 1.5.3, 1.6.1, 1.7.0 |
//! | CVE-2025-64433, -64434 | files of virt-launcher; one identity for API and handler | before 1.7.0; exact releases not found |
//! | CVE-2025-64435 | a pod with a label is taken for a machine's | 1.7.0; 1.6.3 has it still |
//! | CVE-2025-64436 | virt-handler may move machines between nodes | 1.7.0 |
//! | CVE-2025-64437 | virt-handler gives files of the host away | 1.5.3, 1.6.1 |
//! | CVE-2026-7374 | a console's socket leads to any socket of the host | 1.6.6, 1.7.4, 1.8.3 |
//! | CVE-2026-9804 | an export reads files beside the claim | in 1.9.0; first patch releases not found |
//!
//! Sources: the advisories of github.com/kubevirt/kubevirt and the Go vulnerability database; of
//! CVE-2026-9804 the source of 1.9.0, and Covey exports nothing.

use std::fmt::Write as _;

/// Longest text that is taken for a version.
const LONGEST: usize = 64;

/// The first release of each minor without what the table above lists, oldest first; newer minors have
/// all of the fixes.
const FIXED: [Number; 3] = [Number(1, 7, 4), Number(1, 8, 3), Number(1, 9, 0)];

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Number(u32, u32, u32);

/// What is known of the KubeVirt that runs machines.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Release {
    /// Nothing: there is none, or it does not say its version.
    #[default]
    Unknown,
    /// No hole that is listed here.
    Fixed,
    /// Published holes.
    Outdated {
        /// Its version, as it says it: `v1.6.0`.
        version: String,
    },
}

impl Release {
    /// Of what the KubeVirt objects of the management cluster say (`status.observedKubeVirtVersion`). Where
    /// there are several, the oldest counts.
    pub fn of<'a>(versions: impl IntoIterator<Item = &'a str>) -> Self {
        let read = versions
            .into_iter()
            .filter_map(|text| Some((read(text)?, text)));
        let Some(((number, is_candidate), version)) = read.min_by_key(|((n, c), _)| (*n, !*c))
        else {
            return Self::Unknown;
        };
        match is_outdated(number, is_candidate) {
            true => Self::Outdated {
                version: version.to_owned(),
            },
            false => Self::Fixed,
        }
    }

    /// What is wrong and how to mend it; none where nothing is known to be wrong.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self::Outdated { version } = self else {
            return None;
        };
        let mut text =
            format!("KubeVirt {version} has published holes; machines run on. Upgrade it to");
        for Number(major, minor, patch) in FIXED.iter().rev() {
            // Writing to a String cannot fail.
            let _ = write!(text, " {major}.{minor}.{patch} or");
        }
        text.push_str(" newer");
        Some(text)
    }
}

/// A release's number, and whether it is only a candidate of it. What comes behind a `+`, or behind a `-`
/// that is no candidate, is somebody's build of it: `v1.8.3-5-gabcdef`, `v1.7.4+suse`.
fn read(text: &str) -> Option<(Number, bool)> {
    if text.len() > LONGEST {
        return None;
    }
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(['-', '+']).unwrap_or(text.len());
    let (numbers, rest) = text.split_at_checked(end)?;
    let mut numbers = numbers.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| digits)
    });
    let number = Number(numbers.next()??, numbers.next()??, numbers.next()??);
    if numbers.next().is_some() {
        return None;
    }
    let candidates = ["-alpha", "-beta", "-rc"];
    Some((number, candidates.iter().any(|word| rest.starts_with(word))))
}

fn is_outdated(number: Number, is_candidate: bool) -> bool {
    let Number(major, minor, _) = number;
    let mut same = FIXED.iter().filter(|f| (f.0, f.1) == (major, minor));
    match same.next() {
        Some(fixed) => (number, !is_candidate) < (*fixed, true),
        // No minor between those of the table lacks fixes.
        None => FIXED.first().is_some_and(|oldest| number < *oldest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_before_the_fixes_of_their_minor_are_outdated() {
        for version in [
            "v0.59.2",
            "v1.5.3",
            "v1.6.0",
            "1.6.0",
            "v1.6.6",
            "v1.7.0",
            "v1.7.3",
            "v1.8.0",
            "v1.8.2",
            "v1.8.1-rc.0",
            "v1.8.3-rc.0",
            "v1.9.0-beta.0",
            "v1.8.2-3-g0123abc",
            "v1.6.4+dirty",
        ] {
            let said = Release::of([version]);
            let version = version.to_owned();
            assert_eq!(said, Release::Outdated { version });
        }
        for version in [
            "v1.7.4",
            "v1.7.10",
            "v1.8.3",
            "1.8.4",
            "v1.9.0",
            "v1.9.1-rc.0",
            "v1.10.0-alpha.0",
            "v2.0.0",
            "v1.8.3-5-g0123abc",
            "v1.7.4+suse",
            "v1.7.4-150600.5.3.1",
        ] {
            assert_eq!(Release::of([version]), Release::Fixed, "{version}");
        }
    }

    #[test]
    fn nothing_is_known_of_what_cannot_be_read() {
        let long = format!("v1.6.0-{}", "x".repeat(LONGEST));
        for version in [
            "",
            "v",
            "devel",
            "latest",
            "v1.6",
            "v1.6.0.1",
            "v1.6.x",
            "v1..0",
            "v+1.6.0",
            "1.-6.0",
            "v1.6.99999999999",
            "sha256:0123",
            "20260101_0123abc",
            "\u{e9}1.6.0",
            long.as_str(),
        ] {
            assert_eq!(Release::of([version]), Release::Unknown, "{version}");
        }
        assert_eq!(Release::of([]), Release::Unknown);
        assert_eq!(Release::Unknown.problem(), None);
        assert_eq!(Release::Fixed.problem(), None);
    }

    #[test]
    fn the_oldest_counts_and_what_cannot_be_read_does_not() {
        let outdated = |version: &str| Release::Outdated {
            version: version.to_owned(),
        };
        assert_eq!(
            Release::of(["v1.9.0", "v1.6.1", "v1.8.0"]),
            outdated("v1.6.1")
        );
        assert_eq!(Release::of(["devel", "v1.9.0"]), Release::Fixed);
        assert_eq!(
            Release::of(["v1.8.3", "v1.8.3-rc.1"]),
            outdated("v1.8.3-rc.1")
        );
    }

    #[test]
    fn the_problem_names_the_version_and_where_to_go() {
        let problem = Release::of(["v1.6.0"]).problem().unwrap();
        assert_eq!(
            problem,
            "KubeVirt v1.6.0 has published holes; machines run on. Upgrade it to 1.9.0 or 1.8.3 or \
             1.7.4 or newer"
        );
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(FIXED.is_sorted());
        for pair in FIXED.windows(2) {
            assert!((pair[0].0, pair[0].1) < (pair[1].0, pair[1].1));
        }
    }
}
