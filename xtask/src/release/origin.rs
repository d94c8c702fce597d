//! Where a release comes from: its version, its commit and where the sources are.

use std::collections::BTreeMap;

use semver::Version;

use super::checkout::Commit;

/// All of it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) version: Version,
    pub(crate) commit: Commit,
    /// Where the sources are published.
    pub(crate) source: String,
}

impl Origin {
    /// The image specification's keys (`annotations.md`) for something with this title.
    pub(crate) fn labels(&self, title: &str) -> BTreeMap<String, String> {
        let version = self.version.to_string();
        let labels = [
            ("created", self.commit.created.as_str()),
            ("licenses", "Apache-2.0"),
            ("revision", self.commit.hash.as_str()),
            ("source", self.source.as_str()),
            ("title", title),
            ("version", version.as_str()),
        ];
        let label = |(key, value): (&str, &str)| {
            (format!("org.opencontainers.image.{key}"), value.to_owned())
        };
        labels.into_iter().map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_commit_version_and_time_of_the_commit() {
        let commit = Commit {
            hash: "00ff".to_owned(),
            seconds: 1,
            created: "1970-01-01T00:00:01Z".to_owned(),
            is_dirty: false,
        };
        let origin = Origin {
            version: Version::new(1, 2, 3),
            commit,
            source: "https://example.com".to_owned(),
        };
        let labels = origin.labels("A title");
        assert_eq!(labels.len(), 6);
        let label = |key: &str| labels[&format!("org.opencontainers.image.{key}")].clone();
        assert_eq!(label("created"), "1970-01-01T00:00:01Z");
        assert_eq!(label("revision"), "00ff");
        assert_eq!(
            (label("version"), label("title")),
            ("1.2.3".to_owned(), "A title".to_owned())
        );
    }
}
