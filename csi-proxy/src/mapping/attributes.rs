//! Attributes of volumes: what a VolumeAttributesClass of the tenant cluster says, to one of the
//! management cluster that its class of storage allows.
//!
//! Invariant: pure; no word of a tenant's becomes a name in the management cluster but by the offer.

use std::collections::BTreeMap;

use api::storage::Class;

use crate::cache::objects::Volume;
use crate::names;
use crate::status::Status;

/// The VolumeAttributesClass of the management cluster that these parameters mean for a volume of this
/// class; none when there are no parameters.
///
/// # Errors
/// INVALID_ARGUMENT, which is final for the sidecars, naming what there is.
pub fn wanted<'a>(
    parameters: &BTreeMap<String, String>,
    class: &'a Class,
) -> Result<Option<&'a str>, Status> {
    if let Some(key) = parameters.keys().find(|key| *key != names::PARAMETER_CLASS) {
        return Err(Status::invalid_argument(format!(
            "the VolumeAttributesClass has a parameter {key}, which means nothing here; the only one \
             is {}",
            names::PARAMETER_CLASS
        )));
    }
    let Some(word) = parameters.get(names::PARAMETER_CLASS) else {
        return Ok(None);
    };
    let meant = class.attributes.get(word).ok_or_else(|| {
        let all: Vec<_> = class.attributes.keys().map(String::as_str).collect();
        Status::invalid_argument(match all.is_empty() {
            true => format!(
                "volumes of class {} have no attributes that can be chosen; remove the \
                 VolumeAttributesClass from the claim",
                class.name
            ),
            false => format!(
                "volumes of class {} cannot have the attributes {word}; there are: {}",
                class.name,
                all.join(", ")
            ),
        })
    })?;
    Ok(Some(meant))
}

/// How far a volume is with the attributes that it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has to be asked for.
    Ask,
    /// It was asked for, and is not so yet.
    Waits,
    /// It is so, or will be when there is a volume.
    Done,
}

/// How far a volume is.
///
/// # Errors
/// INVALID_ARGUMENT when storage said that it can never have these.
pub fn progress(volume: &Volume, wanted: &str) -> Result<Progress, Status> {
    let has = |name: &Option<String>| name.as_deref() == Some(wanted);
    if !has(&volume.attributes) {
        return Ok(Progress::Ask);
    }
    if !volume.bound || has(&volume.current_attributes) {
        return Ok(Progress::Done);
    }
    match volume.attributes_infeasible {
        true => Err(Status::invalid_argument(format!(
            "storage cannot give volume {} these attributes; choose others",
            volume.id
        ))),
        false => Ok(Progress::Waits),
    }
}

/// What is said where the management cluster took no notice: it does not serve the kind.
#[must_use]
pub fn unserved() -> Status {
    Status::failed_precondition(
        "the platform cannot give volumes attributes; remove the VolumeAttributesClass from the claim, \
         or ask whoever runs the platform for Kubernetes 1.34 or newer beneath it",
    )
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn class(attributes: &[(&str, &str)]) -> Class {
        let owned = |(word, meant): &(&str, &str)| ((*word).to_owned(), (*meant).to_owned());
        Class {
            name: "fast".to_owned(),
            attributes: attributes.iter().map(owned).collect(),
            ..Class::default()
        }
    }

    fn parameters(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_owned(), value.to_owned())].into()
    }

    #[test]
    fn only_what_the_class_allows_becomes_a_name_of_the_management_cluster() {
        let some = class(&[("gold", "ceph-iops-9000"), ("plain", "ceph-iops-100")]);
        assert_eq!(wanted(&BTreeMap::new(), &some), Ok(None));
        let gold = parameters("class", "gold");
        assert_eq!(wanted(&gold, &some), Ok(Some("ceph-iops-9000")));
        let cases = [
            (parameters("iops", "9"), some.clone(), "parameter iops"),
            (
                parameters("class", "ceph-iops-9000"),
                some,
                "there are: gold, plain",
            ),
            (gold, class(&[]), "no attributes that can be chosen"),
        ];
        for (parameters, class, sentence) in cases {
            let refusal = wanted(&parameters, &class).unwrap_err();
            assert_eq!(refusal.code, Code::InvalidArgument, "{refusal}");
            assert!(refusal.sentence.contains(sentence), "{refusal}");
            assert!(!refusal.sentence.contains("iops-100"), "{refusal}");
        }
    }

    #[test]
    fn volume_is_changed_once_and_waited_for_until_storage_has_done_it_or_never_will() {
        let iops = Some("iops".to_owned());
        let mut volume = Volume {
            bound: true,
            attributes: Some("other".to_owned()),
            ..Volume::default()
        };
        assert_eq!(progress(&volume, "iops"), Ok(Progress::Ask));
        volume.attributes.clone_from(&iops);
        assert_eq!(progress(&volume, "iops"), Ok(Progress::Waits));
        volume.attributes_infeasible = true;
        assert_eq!(
            progress(&volume, "iops").unwrap_err().code,
            Code::InvalidArgument
        );
        volume.attributes_infeasible = false;
        let unbound = Volume {
            bound: false,
            ..volume.clone()
        };
        assert_eq!(progress(&unbound, "iops"), Ok(Progress::Done));
        volume.current_attributes = iops;
        assert_eq!(progress(&volume, "iops"), Ok(Progress::Done));
        assert_eq!(progress(&volume, "other"), Ok(Progress::Ask));
    }
}
