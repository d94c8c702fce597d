//! What an instance means for its Machine, and whether one can be asked for. Pure: no I/O, no clock, no chance.
//!
//! Invariant: an instance is a Machine's by its tags, or, where it has none of ours, by the ID that it was known to have or
//! by the token that it was asked for under; one with other tags of ours is another Machine's.

use providers::identity::{Labels, Owner};
use providers::subject::{Asked, Subject};
use providers::tags;

use crate::schema::{Instance, number};
use crate::settings::{Place, USER_DATA_LIMIT, Wanted};

/// Most characters of a token (documentation, "Ensure idempotency in Amazon EC2 API requests").
const TOKEN: usize = 64;

/// Whether an instance is a Machine's.
#[must_use]
pub fn is_its(owner: &Owner, known: Option<u64>, instance: &Instance) -> bool {
    let mut names = instance.tags.keys();
    let has_none = !names.any(|name| name.to_ascii_lowercase().starts_with("covey-"));
    let is_known = known.is_some() && number(&instance.id) == known;
    let is_asked_for = !owner.uid.is_empty() && instance.token == owner.uid;
    is_tagged(owner, &instance.tags) || ((is_known || is_asked_for) && has_none)
}

/// Whether something is a Machine's by its tags.
#[must_use]
pub fn is_tagged(owner: &Owner, came: &Labels) -> bool {
    owner.has(&tags::read(came))
}

/// What to make of an instance of a Machine's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sight {
    /// It is there.
    There,
    /// It ended before anybody saw it: whoever asks for it again is told why.
    EndedUnseen,
    /// It ended.
    Ended,
    /// It ends; whoever asks for it waits until it has.
    Ends,
}

/// What to make of it.
#[must_use]
pub fn sight(subject: &Subject, instance: &Instance) -> Sight {
    let is_awaited = matches!(subject.asked, Asked::Pending { .. }) && !subject.is_going;
    match (instance.state.as_str(), is_awaited) {
        ("terminated", true) => Sight::EndedUnseen,
        ("terminated", false) => Sight::Ended,
        ("shutting-down", true) => Sight::Ends,
        _ => Sight::There,
    }
}

/// Why it cannot be made, which would only be found out by asking; none where it can.
#[must_use]
pub fn impossible(wanted: &Wanted, place: &Place) -> Option<String> {
    let size = wanted.user_data.len();
    if size > USER_DATA_LIMIT {
        return Some(format!(
            "its user data have {size} bytes and may have {USER_DATA_LIMIT}: give the node pool fewer labels, taints \
             and SSH keys"
        ));
    }
    if !is_image(&wanted.image) {
        return Some(format!(
            "{} is no image: name one by its ID, as ami-0123456789abcdef0",
            wanted.image
        ));
    }
    if place.root_device.is_empty() {
        let why = "what the image calls its first disk is not named: put its RootDeviceName into spec.aws.rootDevice of \
                   the ProviderConfig";
        return Some(why.to_owned());
    }
    let uid = &wanted.owner.uid;
    if uid.len() > TOKEN || !uid.is_ascii() {
        return Some(format!("{uid:?} is no token that EC2 takes"));
    }
    wanted.owner.unusable()
}

/// The ID of an image. A name is not taken: anybody may give an image any name.
#[must_use]
pub fn is_image(text: &str) -> bool {
    text.starts_with("ami-") && number(text).is_some()
}

/// Whether something is a region, so that it may stand in an address.
#[must_use]
pub fn is_region(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.len() <= 32 && text.chars().all(is_part) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn owner() -> Owner {
        Owner {
            installation: "i-1".to_owned(),
            machine: "w".to_owned(),
            uid: "u1".to_owned(),
            ..Owner::default()
        }
    }

    fn instance(state: &str) -> Instance {
        Instance {
            id: "i-0123456789abcdef0".to_owned(),
            state: state.to_owned(),
            token: "u1".to_owned(),
            ..Instance::default()
        }
    }

    #[test]
    fn instance_is_a_machines_by_its_tags_and_else_by_what_nobody_can_take_off() {
        let mut found = instance("running");
        assert!(is_its(&owner(), None, &found), "by its token");
        found.token = "other".to_owned();
        assert!(!is_its(&owner(), None, &found));
        assert!(is_its(&owner(), number(&found.id), &found), "by its ID");
        found.tags = tags::spelled(&owner(), Timestamp::UNIX_EPOCH);
        assert!(is_its(&owner(), None, &found), "by its tags");
        let other = Owner {
            uid: "u2".to_owned(),
            ..owner()
        };
        found.token = "u2".to_owned();
        assert!(!is_its(&other, number(&found.id), &found), "another's tags");
        let nobody = Owner::default();
        assert!(!is_its(&nobody, None, &Instance::default()));
    }

    #[test]
    fn one_that_ended_is_lost_only_to_whom_saw_it() {
        let subject = |asked, is_going| Subject {
            owner: owner(),
            asked,
            instance: None,
            is_going,
            node_ready: None,
        };
        let pending = Asked::Pending { deleted: None };
        let sight = |asked, is_going, state| sight(&subject(asked, is_going), &instance(state));
        assert_eq!(sight(pending, false, "pending"), Sight::There);
        assert_eq!(sight(pending, false, "shutting-down"), Sight::Ends);
        assert_eq!(sight(pending, false, "terminated"), Sight::EndedUnseen);
        assert_eq!(sight(pending, true, "terminated"), Sight::Ended);
        assert_eq!(sight(Asked::Seen, false, "terminated"), Sight::Ended);
        assert_eq!(sight(Asked::Seen, true, "shutting-down"), Sight::There);
        assert_eq!(sight(Asked::Seen, false, "novel"), Sight::There);
    }

    #[test]
    fn what_would_be_refused_is_not_asked_for() {
        let place = Place {
            root_device: "/dev/xvda".to_owned(),
            ..Place::default()
        };
        let wanted = Wanted {
            owner: owner(),
            since: Timestamp::UNIX_EPOCH,
            size: "m7i.large".to_owned(),
            image: "ami-0123456789abcdef0".to_owned(),
            disk: 30,
            is_spot: false,
            user_data: "x".repeat(USER_DATA_LIMIT),
        };
        assert_eq!(impossible(&wanted, &place), None);
        let long = Wanted {
            user_data: "x".repeat(USER_DATA_LIMIT + 1),
            ..wanted.clone()
        };
        assert!(impossible(&long, &place).unwrap().contains("16385 bytes"));
        let named = Wanted {
            image: "debian-13".to_owned(),
            ..wanted.clone()
        };
        assert!(impossible(&named, &place).unwrap().contains("no image"));
        assert!(impossible(&wanted, &Place::default()).is_some());
    }

    #[test]
    fn region_leads_nowhere_else() {
        assert!(is_region("eu-central-1") && is_region("us-gov-west-1"));
        for text in ["", "evil.com/", "a.b", "A", "-a", "a@b", &"a".repeat(40)] {
            assert!(!is_region(text), "{text}");
        }
    }
}
