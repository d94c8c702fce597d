//! What is made: instances, each with a disk and an interface.
//!
//! Invariant: under one token there is one instance, ever; a request is refused as a whole, or is carried out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::catalogue::{self, GROUP, ROOT, SUBNET, ZONE};
use super::contents::{Contents, Requested};
use super::thing::{Instance, Part, Place};
use super::xml::{done, element, refused};
use crate::answer::Answer;
use crate::journal::{Labels, event};
use crate::query::Query;
use crate::serve::later;

/// Most bytes of user data, before they are encoded.
const USER_DATA: usize = 16 * 1024;

impl Contents {
    /// `RunInstances`.
    pub(super) fn run(&mut self, place: &Place, form: &Query, now: Timestamp) -> Answer {
        let get = |name: &str| form.get(name).unwrap_or_default();
        let key = (place.clone(), get("ClientToken").to_owned());
        let is_dry = get("DryRun") == "true";
        if let (false, Some(before)) = (is_dry, self.tokens.get(&key)) {
            if before.form.as_slice() != form.pairs() {
                let why = "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).";
                return refused(400, "IdempotentParameterMismatch", why);
            }
            return match self.instances.get(&before.made) {
                Some(there) if there.state != "terminated" => self.show_made(&before.made),
                _ => {
                    let why = "The client token was used by an instance that is terminated.";
                    refused(400, "IdempotentInstanceTerminated", why)
                }
            };
        }
        if let Err(refused) = self.possible(place, form) {
            return refused;
        }
        if is_dry {
            let why = "Request would have succeeded, but DryRun flag is set.";
            return refused(412, "DryRunOperation", why);
        }
        let id = self.make(place, form, now);
        if !key.1.is_empty() {
            let asked = Requested {
                form: form.pairs().to_vec(),
                made: id.clone(),
            };
            self.tokens.insert(key, asked);
        }
        self.show_made(&id)
    }

    fn show_made(&self, id: &str) -> Answer {
        let shown = self.instances.get(id).map(|made| made.show(id, ZONE));
        done(
            "RunInstances",
            &element("instancesSet", &shown.unwrap_or_default()),
        )
    }

    fn possible(&self, place: &Place, form: &Query) -> Result<(), Answer> {
        let get = |name: &str| form.get(name).unwrap_or_default();
        let type_ = get("InstanceType");
        let Some(found) = catalogue::type_of(type_) else {
            let why = format!("Invalid value '{type_}' for InstanceType.");
            return Err(refused(400, "InvalidParameterValue", &why));
        };
        let image = catalogue::image(get("ImageId"));
        let Some(architecture) = image else {
            let why = format!("The image id '[{}]' does not exist", get("ImageId"));
            return Err(refused(400, "InvalidAMIID.NotFound", &why));
        };
        if architecture != found.architecture {
            let why = "The architecture of the specified instance type does not match that of the ImageId.";
            return Err(refused(400, "InvalidParameterValue", why));
        }
        if get("NetworkInterface.1.SubnetId") != SUBNET {
            let why = "The subnet ID does not exist";
            return Err(refused(400, "InvalidSubnetID.NotFound", why));
        }
        let groups = form.each("NetworkInterface.1.SecurityGroupId");
        if groups.iter().any(|group| *group != GROUP) {
            let why = "The security group does not exist";
            return Err(refused(400, "InvalidGroup.NotFound", why));
        }
        if get("BlockDeviceMapping.1.DeviceName") != ROOT {
            let why = "Invalid device name for BlockDeviceMapping";
            return Err(refused(400, "InvalidBlockDeviceMapping", why));
        }
        let user_data = STANDARD.decode(get("UserData"));
        match user_data {
            Ok(bytes) if bytes.len() <= USER_DATA => {}
            Ok(_) => {
                let why = "User data is limited to 16384 bytes";
                return Err(refused(400, "InvalidParameterValue", why));
            }
            Err(_) => {
                let why = "Invalid BASE64 encoding of user data.";
                return Err(refused(400, "InvalidUserData.Malformed", why));
            }
        }
        // Neither is looked at where nothing is to be made.
        if get("DryRun") == "true" {
            return Ok(());
        }
        let is_exhausted = self.behaviour.exhausted.iter().any(|name| name == type_);
        if is_exhausted || !found.is_here {
            let why = "We currently do not have sufficient capacity in the Availability Zone you requested.";
            return Err(refused(500, "InsufficientInstanceCapacity", why));
        }
        let of_it = self.instances.values();
        let live = of_it.filter(|i| i.state != "terminated" && i.place == *place);
        let cpus = live.filter_map(|i| Some(catalogue::type_of(&i.type_)?.cpus));
        let used: usize = cpus.sum();
        if used + found.cpus > self.behaviour.vcpus {
            let why = "You have requested more vCPU capacity than your current vCPU limit allows.";
            return Err(refused(400, "VcpuLimitExceeded", why));
        }
        Ok(())
    }

    fn make(&mut self, place: &Place, form: &Query, now: Timestamp) -> String {
        let get = |name: &str| form.get(name).unwrap_or_default();
        let is_spot = get("InstanceMarketOptions.MarketType") == "spot";
        let id = self.id("i");
        let request = is_spot.then(|| self.id("sir"));
        let ends = self.behaviour.ends_pending;
        let takes = later(now, self.behaviour.create_takes);
        let tags = tags_of(form, "instance");
        let instance = Instance {
            place: place.clone(),
            number: self.next_id,
            created: now,
            found: later(now, self.behaviour.found_after),
            listed: later(now, self.behaviour.listed_after),
            token: get("ClientToken").to_owned(),
            type_: get("InstanceType").to_owned(),
            tags: tags.clone(),
            state: "pending",
            reason: ends,
            is_public: get("NetworkInterface.1.AssociatePublicIpAddress") == "true",
            spot_request: request,
            marked: None,
            protected: false,
            runs: ends.is_none().then_some(takes),
            ends: ends.map(|_| takes),
            ended: None,
        };
        self.came("instance", &id, &tags, now);
        self.instances.insert(id.clone(), instance);
        for (kind, name, is_disk, goes) in [
            (
                "vol",
                "volume",
                true,
                "BlockDeviceMapping.1.Ebs.DeleteOnTermination",
            ),
            (
                "eni",
                "network-interface",
                false,
                "NetworkInterface.1.DeleteOnTermination",
            ),
        ] {
            let tags = tags_of(form, name);
            let part = Part {
                place: place.clone(),
                is_disk,
                created: now,
                tags: tags.clone(),
                user: Some(id.clone()),
                goes_along: get(goes) == "true",
            };
            let of_it = self.id(kind);
            self.came(part.event(), &of_it, &tags, now);
            self.parts.insert(of_it, part);
        }
        id
    }

    fn came(&mut self, kind: &'static str, id: &str, tags: &Labels, now: Timestamp) {
        let came = event(now, kind, number(id), tags, true);
        self.journal.events.push(came);
    }
}

/// The number that the journal knows something by.
pub(super) fn number(id: &str) -> u64 {
    let digits = id.rsplit('-').next().unwrap_or_default();
    let last = digits.get(8..).unwrap_or_default();
    u64::from_str_radix(last, 16).unwrap_or_default()
}

/// Tags of what is made, of this kind.
fn tags_of(form: &Query, kind: &str) -> Labels {
    let mut tags = Labels::new();
    for n in 1..=9 {
        let of = |name: &str| form.get(&format!("TagSpecification.{n}.{name}"));
        if of("ResourceType") != Some(kind) {
            continue;
        }
        let pair = |m: u32| {
            let key = of(&format!("Tag.{m}.Key"))?;
            let value = of(&format!("Tag.{m}.Value")).unwrap_or_default();
            Some((key.to_owned(), value.to_owned()))
        };
        tags.extend((1..).map_while(pair));
    }
    tags
}
