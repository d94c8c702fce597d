//! Which Kubernetes and etcd versions Covey builds, and which way a version may change.
//!
//! Invariant: a text is read in exactly one place ([`parse`]); everything later holds a
//! [`semver::Version`] whose minor is in [`SUPPORTED_MINORS`].

use std::ops::RangeInclusive;

use api::Reason;
use semver::Version;
use thiserror::Error;

/// Minors of Kubernetes 1 that Covey builds and tests.
pub const SUPPORTED_MINORS: RangeInclusive<u64> = 34..=36;

/// The oldest etcd that the operator accepts: earlier ones have known ways around authorisation.
pub const OLDEST_ETCD: Version = Version::new(3, 6, 14);

/// A node may be so many minors older than its control plane (Kubernetes' version skew policy).
pub const WORKER_SKEW: u64 = 3;

/// What is wrong with a version; the text says how to mend it.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum VersionError {
    /// Not `x.y.z`.
    #[error("\"{0}\" is not a version: write major.minor.patch in full, such as {example}", example = EXAMPLE)]
    Malformed(String),
    /// A minor that Covey does not build.
    #[error("Kubernetes {0} is not supported: choose a patch release of {list}", list = supported())]
    Unsupported(Version),
    /// From a higher to a lower minor.
    #[error(
        "the version cannot go from {from} down to {to}: etcd may already hold what only the newer \
         minor can read; keep {major}.{minor}, or create a new tenant cluster",
        major = from.major, minor = from.minor
    )]
    Downgrade {
        /// The version in force.
        from: Version,
        /// The version asked for.
        to: Version,
    },
    /// More than one minor at once.
    #[error(
        "the version cannot go from {from} to {to} at once: Kubernetes goes up one minor at a \
         time; go to {major}.{next} first and wait until status.version says so",
        major = from.major, next = from.minor + 1
    )]
    SkipsMinor {
        /// The version in force.
        from: Version,
        /// The version asked for.
        to: Version,
    },
    /// A node that is newer than its control plane.
    #[error(
        "Kubernetes {worker} is newer than the control plane, which runs {control_plane}: nodes \
         follow the control plane; choose {major}.{minor} or older, or upgrade the TenantCluster \
         first and wait until its status.version says so",
        major = control_plane.major, minor = control_plane.minor
    )]
    WorkerNewer {
        /// The version that the control plane runs.
        control_plane: Version,
        /// The version of the node.
        worker: Version,
    },
    /// A node that is too old for its control plane.
    #[error(
        "Kubernetes {worker} is too old for the control plane, which runs {control_plane}: choose \
         {major}.{oldest} or newer",
        major = control_plane.major, oldest = control_plane.minor.saturating_sub(WORKER_SKEW)
    )]
    WorkerTooOld {
        /// The version that the control plane runs.
        control_plane: Version,
        /// The version of the node.
        worker: Version,
    },
    /// An etcd image without a readable version as its tag.
    #[error("\"{0}\" does not say which etcd it is: end it with a tag such as etcd:3.6.16-0")]
    EtcdUnknown(String),
    /// An etcd of another minor than members can go to.
    #[error(
        "etcd cannot go from {from} to {to}: members go up one minor at a time and never down, because the \
         older one does not read what the newer one wrote; set the operator's etcd image to \
         {major}.{minor}, or to the next minor",
        major = from.major, minor = from.minor
    )]
    EtcdStep {
        /// The one that runs.
        from: Version,
        /// The one that is asked for.
        to: Version,
    },
    /// An etcd that is too old.
    #[error("etcd {0} has known ways around authorisation: use {OLDEST_ETCD} or later")]
    EtcdTooOld(Version),
}

const EXAMPLE: &str = "1.35.4";

impl VersionError {
    /// The reason for a condition.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::Malformed(_) => Reason::VersionMalformed,
            Self::Unsupported(_) => Reason::VersionUnsupported,
            Self::Downgrade { .. } => Reason::VersionDowngrade,
            Self::SkipsMinor { .. } => Reason::VersionSkipsMinor,
            Self::WorkerNewer { .. } => Reason::VersionNewerThanControlPlane,
            Self::WorkerTooOld { .. } => Reason::VersionTooOld,
            Self::EtcdUnknown(_) => Reason::EtcdVersionUnknown,
            Self::EtcdTooOld(_) => Reason::EtcdTooOld,
            Self::EtcdStep { .. } => Reason::EtcdVersionStep,
        }
    }
}

/// Reads `1.35.4` or `v1.35.4`, whether supported or not. Pre-releases and build metadata are
/// malformed here: nobody publishes images of them that a tenant should run.
///
/// # Errors
/// [`VersionError::Malformed`].
pub fn parse(text: &str) -> Result<Version, VersionError> {
    let malformed = || VersionError::Malformed(text.to_owned());
    let version = Version::parse(text.strip_prefix('v').unwrap_or(text));
    let version = version.map_err(|_| malformed())?;
    if version.pre.is_empty() && version.build.is_empty() {
        Ok(version)
    } else {
        Err(malformed())
    }
}

/// The version that a control plane shows by its answer to `/version`, with or without the `v`, where it
/// is to run `asked`: that one, another patch of its minor, or the minor before while old pods serve. None
/// where no pod of ours can say that; the answer is a tenant's, whose image may be anything. What a
/// distributor adds behind the patch is left out.
#[must_use]
pub fn served(answer: &str, asked: &Version) -> Option<Version> {
    let said = Version::parse(answer.strip_prefix('v').unwrap_or(answer)).ok()?;
    let said = Version::new(said.major, said.minor, said.patch);
    check_upgrade(&said, asked).is_ok().then_some(said)
}

/// Reads a version that Covey builds.
///
/// # Errors
/// [`VersionError::Malformed`] or [`VersionError::Unsupported`].
pub fn parse_supported(text: &str) -> Result<Version, VersionError> {
    let version = parse(text)?;
    if version.major == 1 && SUPPORTED_MINORS.contains(&version.minor) {
        Ok(version)
    } else {
        Err(VersionError::Unsupported(version))
    }
}

/// The tag of the Kubernetes images. Example: `v1.35.4`.
#[must_use]
pub fn image_tag(version: &Version) -> String {
    format!("v{version}")
}

/// Whether both are patches of one minor.
#[must_use]
pub fn is_same_minor(one: &Version, other: &Version) -> bool {
    (one.major, one.minor) == (other.major, other.minor)
}

/// Whether a control plane at `old` may be given `new`: one minor up at most, never down a minor;
/// within a minor any patch, since patches share storage and API (the version skew policy of
/// Kubernetes speaks of minors only).
///
/// # Errors
/// [`VersionError::Downgrade`] or [`VersionError::SkipsMinor`].
pub fn check_upgrade(old: &Version, new: &Version) -> Result<(), VersionError> {
    let (from, to) = ((old.major, old.minor), (new.major, new.minor));
    if to < from {
        return Err(VersionError::Downgrade {
            from: old.clone(),
            to: new.clone(),
        });
    }
    if to.0 != from.0 || to.1 - from.1 > 1 {
        return Err(VersionError::SkipsMinor {
            from: old.clone(),
            to: new.clone(),
        });
    }
    Ok(())
}

/// Whether a node of version `worker` may join a control plane that runs `control_plane`: never a
/// newer minor, and at most [`WORKER_SKEW`] older. Patches may differ either way.
///
/// # Errors
/// [`VersionError::WorkerNewer`] or [`VersionError::WorkerTooOld`].
pub fn check_worker(control_plane: &Version, worker: &Version) -> Result<(), VersionError> {
    let (node, server) = (
        (worker.major, worker.minor),
        (control_plane.major, control_plane.minor),
    );
    let (control_plane, worker) = (control_plane.clone(), worker.clone());
    if node > server {
        return Err(VersionError::WorkerNewer {
            control_plane,
            worker,
        });
    }
    if node.0 != server.0 || server.1 - node.1 > WORKER_SKEW {
        return Err(VersionError::WorkerTooOld {
            control_plane,
            worker,
        });
    }
    Ok(())
}

/// The version of an etcd image from its tag (`etcd:3.6.16-0`, `x/etcd:v3.6.16`), if it is new
/// enough.
///
/// # Errors
/// [`VersionError::EtcdUnknown`] or [`VersionError::EtcdTooOld`].
pub fn etcd_version(image: &str) -> Result<Version, VersionError> {
    let unknown = || VersionError::EtcdUnknown(image.to_owned());
    let name = image.split_once('@').map_or(image, |(name, _digest)| name);
    let (_, tag) = name.rsplit_once(':').ok_or_else(unknown)?;
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    // The part after the dash counts builds of the same etcd (`3.6.16-0`); a release candidate
    // (`3.6.14-rc.0`) comes before the release and is therefore too old.
    let parsed = Version::parse(tag).map_err(|_| unknown())?;
    let release = Version::new(parsed.major, parsed.minor, parsed.patch);
    let candidate = parsed
        .pre
        .as_str()
        .starts_with(|c: char| c.is_ascii_alphabetic());
    if release < OLDEST_ETCD || (candidate && release == OLDEST_ETCD) {
        return Err(VersionError::EtcdTooOld(parsed));
    }
    Ok(release)
}

/// Whether members of etcd that run the image `old` may be given the image `new`: the same minor, or the
/// next (https://etcd.io/docs/v3.6/upgrades/; a downgrade is a procedure of its own).
///
/// # Errors
/// [`VersionError::EtcdStep`]. An image whose tag says nothing is not judged: it got in where nobody looked.
pub fn check_etcd_step(old: &str, new: &str) -> Result<(), VersionError> {
    let (Ok(from), Ok(to)) = (etcd_version(old), etcd_version(new)) else {
        return Ok(());
    };
    let is_step = from.major == to.major && (from.minor..=from.minor + 1).contains(&to.minor);
    match is_step {
        true => Ok(()),
        false => Err(VersionError::EtcdStep { from, to }),
    }
}

fn supported() -> String {
    let minors: Vec<String> = SUPPORTED_MINORS.map(|minor| format!("1.{minor}")).collect();
    match minors.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => minors.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        parse(text).unwrap()
    }

    #[test]
    fn versions_are_read_with_and_without_v() {
        assert_eq!(parse_supported("1.35.4"), Ok(Version::new(1, 35, 4)));
        assert_eq!(parse_supported("v1.34.0"), Ok(Version::new(1, 34, 0)));
        assert_eq!(image_tag(&v("1.36.3")), "v1.36.3");
    }

    #[test]
    fn malformed_versions_say_how_to_write_one() {
        for text in [
            "",
            "1.35",
            "v",
            "vv1.35.4",
            "1.35.4-rc.1",
            "1.35.4+x",
            "1.035.4",
            "latest",
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "\"{text}\" is not a version: write major.minor.patch in full, such as 1.35.4"
                )
            );
        }
    }

    #[test]
    fn unsupported_minors_are_refused_with_the_list() {
        for text in ["1.33.9", "1.37.0", "2.35.4", "0.35.4"] {
            let error = parse_supported(text).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "Kubernetes {text} is not supported: choose a patch release of 1.34, 1.35 or 1.36"
                )
            );
        }
    }

    #[test]
    fn patches_go_either_way_and_minors_one_up() {
        for (old, new) in [
            ("1.34.0", "1.34.9"),
            ("1.34.9", "1.34.0"),
            ("1.34.9", "1.35.0"),
            ("1.35.4", "1.36.3"),
        ] {
            assert_eq!(check_upgrade(&v(old), &v(new)), Ok(()), "{old} to {new}");
        }
    }

    #[test]
    fn answer_shows_the_version_that_was_asked_for_or_the_one_before() {
        let asked = v("1.35.4");
        for (answer, shown) in [
            ("v1.35.4", "1.35.4"),
            ("1.35.9", "1.35.9"),
            ("v1.34.2", "1.34.2"),
            ("v1.35.4-vendor.7+0a1b2c3", "1.35.4"),
        ] {
            assert_eq!(served(answer, &asked), Some(v(shown)), "{answer}");
        }
        for answer in ["v9.99.0", "v1.36.0", "v1.33.9", "v2.35.4", "v1.35", "", "v"] {
            assert_eq!(served(answer, &asked), None, "{answer}");
        }
    }

    #[test]
    fn a_lower_minor_is_refused() {
        let error = check_upgrade(&v("1.35.4"), &v("1.34.9")).unwrap_err();
        assert_eq!(error.reason(), "VersionDowngrade");
        assert_eq!(
            error.to_string(),
            "the version cannot go from 1.35.4 down to 1.34.9: etcd may already hold what only the \
             newer minor can read; keep 1.35, or create a new tenant cluster"
        );
    }

    #[test]
    fn two_minors_at_once_are_refused() {
        let error = check_upgrade(&v("1.34.4"), &v("1.36.3")).unwrap_err();
        assert_eq!(error.reason(), "VersionSkipsMinor");
        assert_eq!(
            error.to_string(),
            "the version cannot go from 1.34.4 to 1.36.3 at once: Kubernetes goes up one minor at \
             a time; go to 1.35 first and wait until status.version says so"
        );
    }

    #[test]
    fn nodes_are_never_newer_and_at_most_three_minors_older() {
        for (server, node) in [
            ("1.36.3", "1.36.9"),
            ("1.36.3", "1.35.4"),
            ("1.36.3", "1.33.0"),
        ] {
            assert_eq!(check_worker(&v(server), &v(node)), Ok(()), "{node}");
        }
        let refused = |server, node| check_worker(&v(server), &v(node)).unwrap_err().to_string();
        assert_eq!(
            refused("1.34.4", "1.35.0"),
            "Kubernetes 1.35.0 is newer than the control plane, which runs 1.34.4: nodes follow the \
             control plane; choose 1.34 or older, or upgrade the TenantCluster first and wait until \
             its status.version says so"
        );
        assert_eq!(
            refused("1.36.3", "1.32.9"),
            "Kubernetes 1.32.9 is too old for the control plane, which runs 1.36.3: choose 1.33 or \
             newer"
        );
    }

    #[test]
    fn etcd_below_the_floor_is_refused() {
        assert_eq!(etcd_version("etcd:3.6.16-0"), Ok(Version::new(3, 6, 16)));
        assert_eq!(
            etcd_version("m.example.com:5000/x/etcd:v3.6.14"),
            Ok(Version::new(3, 6, 14))
        );
        assert_eq!(
            etcd_version("etcd:3.7.0-rc.1@sha256:00"),
            Ok(Version::new(3, 7, 0))
        );
        for (image, version) in [
            ("etcd:3.6.13-0", "3.6.13-0"),
            ("etcd:3.5.30", "3.5.30"),
            ("e:3.6.14-rc.0", "3.6.14-rc.0"),
        ] {
            assert_eq!(
                etcd_version(image).unwrap_err().to_string(),
                format!("etcd {version} has known ways around authorisation: use 3.6.14 or later")
            );
        }
    }

    #[test]
    fn etcd_goes_up_one_minor_at_a_time_and_never_down() {
        let step = |old: &str, new: &str| check_etcd_step(old, new).is_ok();
        assert!(step("r/etcd:3.6.16-0", "r/etcd:3.6.14-0"));
        assert!(step("r/etcd:3.6.16-0", "r/etcd:v3.7.1"));
        assert!(!step("r/etcd:3.7.1-0", "r/etcd:3.6.16-0"));
        assert!(!step("r/etcd:3.6.16-0", "r/etcd:3.8.0-0"));
        assert!(!step("r/etcd:3.6.16-0", "r/etcd:4.0.0-0"));
        assert!(step("r/etcd@sha256:0", "r/etcd:3.6.16-0"));
    }

    #[test]
    fn etcd_without_a_version_is_refused() {
        for image in [
            "etcd",
            "etcd:latest",
            "localhost:5000/etcd",
            "etcd@sha256:00",
        ] {
            assert_eq!(
                etcd_version(image).unwrap_err().reason(),
                "EtcdVersionUnknown"
            );
        }
    }
}
