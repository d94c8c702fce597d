//! One address range as a user writes it: read, and checked for what holds for it alone.
//!
//! Invariant: a range that [`parse`] returns is a network address of a size that kube-apiserver
//! and kube-controller-manager start with.

use std::ops::RangeInclusive;

use api::Reason;
use ipnet::IpNet;

use crate::problem::Problem;
use crate::settings::NetworkSettings;

/// What a range is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Use {
    /// `podCIDR`.
    Pods,
    /// `serviceCIDR`.
    Services,
    /// `cidr` of the overlay: it meets no range of its own tenant cluster, and may be that of another one.
    Overlay,
}

impl Use {
    /// Path of the field in a TenantCluster.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Pods => "spec.network.podCIDR",
            Self::Services => "spec.network.serviceCIDR",
            Self::Overlay => "spec.addons.overlay.cidr",
        }
    }

    /// Name of the field alone.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pods => "podCIDR",
            Self::Services => "serviceCIDR",
            Self::Overlay => "addons.overlay.cidr",
        }
    }

    /// Name of the pool in the operator's configuration. The overlay has the family of pods, and no pool of its own.
    pub(super) fn pool_name(self) -> &'static str {
        match self {
            Self::Pods | Self::Overlay => "pods",
            Self::Services => "services",
        }
    }

    /// Prefix lengths that work, and why the ends are where they are.
    ///
    /// Services: kube-apiserver takes at most 20 bits (`cmd/kube-apiserver/app/options`), and
    /// fewer than 16 addresses leave no room beside `kubernetes` and DNS. Pods: each node gets a
    /// /24 (IPv6: /64), and the node IPAM controller takes at most 16 bits of nodes
    /// (`pkg/controller/nodeipam/ipam/cidrset`). The overlay: an address for each machine.
    fn prefixes(self, v4: bool) -> RangeInclusive<u8> {
        match (self, v4) {
            (Self::Pods, true) => 8..=24,
            (Self::Pods, false) => 48..=64,
            (Self::Services, true) => 12..=28,
            (Self::Services, false) => 108..=124,
            (Self::Overlay, true) => 8..=28,
            (Self::Overlay, false) => 48..=120,
        }
    }
}

/// Ranges that cannot carry pods or Services (RFC 6890 and the registries that it names).
const SPECIAL: [(&str, &str); 8] = [
    ("0.0.0.0/8", "means \"this network\""),
    ("127.0.0.0/8", "is loopback"),
    ("169.254.0.0/16", "is link-local"),
    ("224.0.0.0/4", "is multicast"),
    ("240.0.0.0/4", "is reserved"),
    ("::/8", "holds loopback and other special addresses"),
    ("fe80::/10", "is link-local"),
    ("ff00::/8", "is multicast"),
];

/// Ranges for private use: RFC 1918, RFC 6598 (carriers), RFC 2544 (benchmarks), RFC 4193.
const PRIVATE: [&str; 6] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "fc00::/7",
];

/// Reads a range that a user gave.
///
/// # Errors
/// A [`Problem`] with the reason `CIDRMalformed`, `DualStackUnsupported`, `CIDRHostBits`,
/// `CIDRSpecial`, `CIDRFamily` or `CIDRSize`.
pub fn parse(text: &str, use_: Use, settings: &NetworkSettings) -> Result<IpNet, Problem> {
    let problem = |reason, message: String| Err(Problem::new(use_.field(), reason, message));
    if text.contains(',') {
        return problem(
            Reason::DualStackUnsupported,
            format!(
                "\"{text}\" names more than one range: Covey does not build dual-stack tenant \
                 clusters yet; keep one range"
            ),
        );
    }
    let Ok(range) = text.parse::<IpNet>() else {
        return problem(
            Reason::CIDRMalformed,
            format!(
                "\"{text}\" is not an address range: write address/prefix, such as {}",
                {
                    match use_ {
                        Use::Pods => "10.128.0.0/18",
                        Use::Services => "100.64.0.0/20",
                        Use::Overlay => "198.18.0.0/16",
                    }
                }
            ),
        );
    };
    if range != range.trunc() {
        return problem(
            Reason::CIDRHostBits,
            format!(
                "{text} starts in the middle of a range: write {}",
                range.trunc()
            ),
        );
    }
    if let Some((special, what)) = special(range) {
        return problem(
            Reason::CIDRSpecial,
            format!(
                "{text} overlaps {special}, which {what}: use a private range, such as one of \
                     10.0.0.0/8"
            ),
        );
    }
    let v4 = matches!(range, IpNet::V4(_));
    let installed = family(matches!(pool_of(use_, settings), IpNet::V4(_)));
    if family(v4) != installed {
        return problem(
            Reason::CIDRFamily,
            format!(
                "{text} is {}, but tenant clusters of this management cluster speak {installed} \
                 (the operator's pool is {}): use an {installed} range",
                family(v4),
                pool_of(use_, settings),
            ),
        );
    }
    let prefixes = use_.prefixes(v4);
    if !prefixes.contains(&range.prefix_len()) {
        let (largest, smallest) = (prefixes.start(), prefixes.end());
        let why = if range.prefix_len() < *largest {
            "large"
        } else {
            "small"
        };
        return problem(
            Reason::CIDRSize,
            format!(
                "{text} is too {why}: use a prefix from /{largest} (largest) to /{smallest} \
                     (smallest)"
            ),
        );
    }
    Ok(range)
}

fn pool_of(use_: Use, settings: &NetworkSettings) -> IpNet {
    match use_ {
        Use::Pods | Use::Overlay => settings.pods.cidr,
        Use::Services => settings.services.cidr,
    }
}

fn family(v4: bool) -> &'static str {
    if v4 { "IPv4" } else { "IPv6" }
}

/// The special range that `range` meets, and what that one is.
pub(super) fn special(range: IpNet) -> Option<(IpNet, &'static str)> {
    SPECIAL.iter().find_map(|(special, what)| {
        let special: IpNet = special.parse().ok()?;
        overlap(&special, &range).then_some((special, *what))
    })
}

/// Whether two ranges share an address.
#[must_use]
pub fn overlap(one: &IpNet, other: &IpNet) -> bool {
    one.contains(&other.network()) || other.contains(&one.network())
}

/// Whether every address of `range` is for private use.
#[must_use]
pub fn is_private(range: &IpNet) -> bool {
    PRIVATE
        .iter()
        .filter_map(|text| text.parse::<IpNet>().ok())
        .any(|net| net.contains(range))
}
