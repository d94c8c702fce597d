//! The storage that a tenant cluster is offered: what a platform team configures, the operator hands
//! on, and the CSI driver works by.
//!
//! Invariant: a class that is not on the list does not exist for the tenant cluster, so no right to
//! read StorageClasses of the management cluster is needed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The list, and how disks get into machines.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Offer {
    /// Storage that tenant clusters may use. Default: none.
    pub classes: Vec<Class>,
    /// How disks are hot-plugged. Default: `subresources`.
    pub hotplug: Hotplug,
    /// Most volumes on one machine, below [`MOST_DISKS`]; what the management cluster's nodes can
    /// attach at once may be less. Default: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_per_machine: Option<u16>,
    /// Most volumes of one tenant cluster, each a claim in the management cluster; those that there are stay.
    /// Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_volumes: Option<u32>,
    /// Most snapshots of one tenant cluster; those that there are stay. Default: 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_snapshots: Option<u32>,
}

/// Most disks of a virtual machine, of whatever kind (KubeVirt `api/core/v1/schema.go`, `MaxItems` of
/// `volumes` and `disks`).
pub const MOST_DISKS: u16 = 256;

/// Default of [`Offer::max_volumes`] and [`Offer::max_snapshots`]: a claim with its volume, or a snapshot with its
/// content, is about 4 KiB of the management cluster's etcd, so of both at most 8 MiB.
pub const MAX_EACH: u32 = 1000;

/// One class of storage. Its claims are block devices: KubeVirt expects a disk image inside a claim
/// with a filesystem, and waits without a word when there is none.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Class {
    /// Name of the StorageClass inside tenant clusters, and what its parameter `class` says.
    pub name: String,
    /// Name of the StorageClass in the management cluster.
    pub storage_class: String,
    /// Taken when a claim names none. At most one is. Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default: bool,
    /// Whether claims wait for their first pod before there is a volume
    /// (`volumeBindingMode: WaitForFirstConsumer`). Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_consumer: bool,
    /// What the platform team states: a new volume, and what one grows by, shows nothing that anybody
    /// else has written, because the storage zeroes it, encrypts each volume with a key of its own, or
    /// is had by one tenant alone. Without that no volume is made, but copies of a tenant's own
    /// (docs/adr/0014). Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub zeroed: bool,
    /// Whether claims can grow (`allowVolumeExpansion`). Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expandable: bool,
    /// Whether several machines may have a volume at the same time (ReadWriteMany). Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// Whether its driver makes volumes of volumes. Default: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cloneable: bool,
    /// VolumeSnapshotClass in the management cluster. Default: no snapshots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_class: Option<String>,
    /// What its volumes may be given and changed to while they are in use: for each word that tenants
    /// use, the VolumeAttributesClass of the management cluster that it stands for. Default: nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Largest volume, in bytes. Default: no limit but the quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<i64>,
    /// Zones whose machines its volumes can be attached to, each volume to those of all of them.
    /// Default: none is named, and every machine can have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

/// How disks are hot-plugged.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Hotplug {
    /// By the subresources `addvolume` and `removevolume`: one request per disk. For KubeVirt with the
    /// feature gate HotplugVolumes, or with that of the other way, which is on by default from 1.9.
    #[default]
    Subresources,
    /// By the virtual machine's template: one request for all disks. For KubeVirt with the feature
    /// gate DeclarativeHotplugVolumes, which is on by default from 1.9, and without HotplugVolumes:
    /// while that is on, KubeVirt does not look at templates.
    Declarative,
}

impl Offer {
    /// Why the list cannot be used, to be read after "the list of offered storage": a class twice,
    /// two defaults, a class without a name, a zone twice, storage that is in two places.
    ///
    /// # Errors
    /// The first contradiction, and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        let mut names: Vec<_> = self.classes.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("has two classes {}; remove one", pair[0]));
        }
        let nameless = |c: &Class| c.name.is_empty() || c.storage_class.is_empty();
        if self.classes.iter().any(nameless) {
            return Err("has a class without name or storageClass; set both".to_owned());
        }
        let defaults = self.classes.iter().filter(|c| c.default).count();
        if defaults > 1 {
            return Err(format!("has {defaults} default classes; leave one"));
        }
        let none = |c: &&Class| c.largest.is_some_and(|largest| largest <= 0);
        if let Some(class) = self.classes.iter().find(none) {
            return Err(format!(
                "lets class {} have no volume at all; largest is in bytes, above 0",
                class.name
            ));
        }
        let empty = |c: &&Class| {
            c.attributes
                .iter()
                .any(|(a, b)| a.is_empty() || b.is_empty())
        };
        if let Some(class) = self.classes.iter().find(empty) {
            return Err(format!(
                "has attributes without a name in class {}; name both the tenants' word and the \
                 VolumeAttributesClass",
                class.name
            ));
        }
        let bounds = 1..MOST_DISKS;
        if let Some(most) = self.volumes_per_machine
            && !bounds.contains(&most)
        {
            return Err(format!(
                "has {most} for volumesPerMachine; a machine has at most {MOST_DISKS} disks, of which \
                 one is its root; choose 1 to {}",
                MOST_DISKS - 1
            ));
        }
        self.check_zones()
    }

    fn check_zones(&self) -> Result<(), String> {
        for class in &self.classes {
            let name = &class.name;
            let mut seen = BTreeSet::new();
            for zone in &class.zones {
                if zone.is_empty() {
                    return Err(format!(
                        "has a zone without a name in class {name}; remove it"
                    ));
                }
                if !seen.insert(zone) {
                    return Err(format!("has zone {zone} twice in class {name}; remove one"));
                }
            }
            // A volume says which storage it is of, and by that where it is.
            let first = self.of_storage_class(&class.storage_class);
            let other = first.filter(|first| first.zones.iter().collect::<BTreeSet<_>>() != seen);
            if let Some(other) = other {
                return Err(format!(
                    "has storageClass {} in other zones in class {} than in class {name}; name the \
                     same zones in both",
                    class.storage_class, other.name
                ));
            }
        }
        Ok(())
    }

    /// The class of this name, or the default one.
    #[must_use]
    pub fn class(&self, name: Option<&str>) -> Option<&Class> {
        match name {
            Some(name) => self.classes.iter().find(|c| c.name == name),
            None => self.classes.iter().find(|c| c.default),
        }
    }

    /// Whether any class has snapshots.
    #[must_use]
    pub fn has_snapshots(&self) -> bool {
        self.classes.iter().any(|c| c.snapshot_class.is_some())
    }

    /// Whether volumes of any class can be given other attributes.
    #[must_use]
    pub fn has_attributes(&self) -> bool {
        self.classes.iter().any(|c| !c.attributes.is_empty())
    }

    /// Whether the volumes of any class are out of reach of some machines.
    #[must_use]
    pub fn has_zones(&self) -> bool {
        self.classes.iter().any(|c| !c.zones.is_empty())
    }

    /// The class with this StorageClass in the management cluster.
    #[must_use]
    pub fn of_storage_class(&self, storage_class: &str) -> Option<&Class> {
        self.classes
            .iter()
            .find(|c| c.storage_class == storage_class)
    }

    /// What is left for a tenant cluster that asks for these classes alone; all for one that asks for
    /// none in particular. Where the default is not among them, the first one asked for is.
    #[must_use]
    pub fn only(&self, asked: Option<&[String]>) -> Self {
        let Some(asked) = asked else {
            return self.clone();
        };
        let kept = self.classes.iter().filter(|c| asked.contains(&c.name));
        let mut classes: Vec<Class> = kept.cloned().collect();
        if !classes.iter().any(|c| c.default)
            && let Some(first) = asked
                .iter()
                .find_map(|name| classes.iter().position(|c| c.name == *name))
        {
            classes[first].default = true;
        }
        Self {
            classes,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(text: &str) -> Offer {
        serde_saphyr::from_str(text).unwrap()
    }

    const TWO: &str = "hotplug: declarative\nvolumesPerMachine: 100\nclasses:\n- name: fast\n  storageClass: ceph\n  \
                       default: true\n  expandable: true\n  zeroed: true\n  attributes: {gold: iops}\n\
                       - {name: slow, storageClass: nfs, largest: 1073741824}\n";

    /// Two classes of the same storage.
    const ZONES: &str = "classes: [{name: a, storageClass: x, zones: [east, west]}, \
                         {name: b, storageClass: x, zones: [west, east]}]";

    #[test]
    fn list_says_what_is_offered() {
        let offer = offer(TWO);
        assert_eq!(offer.check(), Ok(()));
        assert_eq!(offer.hotplug, Hotplug::Declarative);
        assert_eq!(offer.class(None).unwrap().storage_class, "ceph");
        assert_eq!(offer.class(Some("slow")).unwrap().largest, Some(1 << 30));
        let zeroed = |name: &str| offer.class(Some(name)).unwrap().zeroed;
        assert!(zeroed("fast") && !zeroed("slow"), "nobody has said it");
        assert_eq!(offer.class(Some("other")), None);
        assert_eq!(offer.of_storage_class("nfs").unwrap().name, "slow");
        assert!(!offer.has_snapshots() && !offer.has_zones() && offer.has_attributes());
    }

    #[test]
    fn what_is_written_reads_the_same() {
        for text in [TWO, ZONES] {
            let offer = offer(text);
            assert_eq!(offer.check(), Ok(()));
            let text = serde_json::to_string(&offer).unwrap();
            assert_eq!(serde_json::from_str::<Offer>(&text).unwrap(), offer);
        }
        assert!(offer(ZONES).has_zones());
    }

    #[test]
    fn contradictions_are_named() {
        let cases = [
            (
                "classes: [{name: a, storageClass: x}, {name: a, storageClass: y}]",
                "two classes a",
            ),
            (
                "classes: [{name: a, storageClass: x, default: true}, {name: b, storageClass: y, default: true}]",
                "2 default",
            ),
            ("classes: [{name: '', storageClass: x}]", "without name"),
            (
                "classes: [{name: a, storageClass: x, attributes: {gold: ''}}]",
                "without a name in class a",
            ),
            ("volumesPerMachine: 0", "choose 1 to 255"),
            ("volumesPerMachine: 256", "choose 1 to 255"),
            (
                "classes: [{name: a, storageClass: x, largest: 0}]",
                "no volume at all",
            ),
            (
                "classes: [{name: a, storageClass: x, zones: [east, '']}]",
                "without a name in class a",
            ),
            (
                "classes: [{name: a, storageClass: x, zones: [east, west, east]}]",
                "zone east twice in class a",
            ),
            (
                "classes: [{name: a, storageClass: x, zones: [east]}, {name: b, storageClass: x}]",
                "storageClass x in other zones in class a than in class b",
            ),
        ];
        for (text, why) in cases {
            let error = offer(text).check().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn tenant_cluster_that_asks_for_some_gets_those_and_always_a_default() {
        let all = offer(TWO);
        let ask = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            let only = all.only(Some(&names));
            let shown = only.classes.iter().map(|c| (c.name.clone(), c.default));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(all.only(None), all);
        assert_eq!(ask(&["slow"]), [("slow".to_owned(), true)]);
        assert_eq!(
            ask(&["slow", "fast"]),
            [("fast".to_owned(), true), ("slow".to_owned(), false)]
        );
        assert_eq!(ask(&["gone"]), []);
    }
}
