//! What is listed: by IDs, by filters, in pages.
//!
//! Invariant: a page that has a next one leads to what comes after it, whether or not it is empty.

use std::borrow::Cow;

use jiff::Timestamp;

use super::catalogue::{self, ROOT, SUBNET, TYPES, ZONE};
use super::contents::Contents;
use super::thing::{Instance, Part, Place};
use super::xml::{done, element, refused, text};
use crate::answer::Answer;
use crate::journal::Labels;
use crate::query::Query;
use crate::serve::later;

/// Filters of a request: name and values.
fn filters(form: &Query) -> Vec<(String, Vec<String>)> {
    let each = (1..).map_while(|n: u32| {
        let name = form.get(&format!("Filter.{n}.Name"))?;
        let values = form.each(&format!("Filter.{n}.Value"));
        let values = values.into_iter().map(str::to_owned).collect();
        Some((name.to_owned(), values))
    });
    each.collect()
}

/// Whether all hold of something with these tags; `own`: what else it is filtered by.
fn hold(all: &[(String, Vec<String>)], tags: &Labels, own: &[(&str, &str)]) -> bool {
    all.iter().all(|(name, values)| {
        let value = match name.strip_prefix("tag:") {
            Some(tag) => tags.get(tag).map(String::as_str),
            None => own
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| *value),
        };
        value.is_some_and(|value| values.iter().any(|wanted| wanted == value))
    })
}

impl Contents {
    /// `Describe…`.
    pub(super) fn describe(
        &self,
        place: &Place,
        action: &str,
        form: &Query,
        endless: bool,
        now: Timestamp,
    ) -> Answer {
        let all = filters(form);
        let shown = match action {
            "DescribeInstances" => {
                let ids = form.each("InstanceId");
                if !ids.is_empty() {
                    return self.by_id(place, form, &ids, now);
                }
                let listed = self.instances.iter().filter(|(_, i)| {
                    let own = [
                        ("client-token", i.token.as_str()),
                        ("instance-state-name", i.state),
                    ];
                    let tags = self.tags(&i.tags, i.created, now);
                    i.place == *place && i.listed <= now && hold(&all, &tags, &own)
                });
                let listed = listed.map(|(id, i)| reservation(&self.seen(i, now).show(id, ZONE)));
                ("reservationSet", listed.collect())
            }
            "DescribeVolumes" => ("volumeSet", self.parts_of(place, &all, true, now)),
            "DescribeNetworkInterfaces" => (
                "networkInterfaceSet",
                self.parts_of(place, &all, false, now),
            ),
            "DescribeImages" => return image(form.get("ImageId.1").unwrap_or_default()),
            "DescribeSubnets" => return self.subnet(form.get("SubnetId.1").unwrap_or_default()),
            "DescribeInstanceTypes" => ("instanceTypeSet", types(&all)),
            "DescribeInstanceTypeOfferings" => ("instanceTypeOfferingSet", offerings(&all)),
            "DescribeSpotPriceHistory" => ("spotPriceHistorySet", prices(form)),
            "DescribeSpotInstanceRequests" => {
                return self.spot(form.get("SpotInstanceRequestId.1").unwrap_or_default());
            }
            _ => return refused(400, "InvalidAction", "The action is not valid."),
        };
        self.page(action, shown, form, endless)
    }

    fn by_id(&self, place: &Place, form: &Query, ids: &[&str], now: Timestamp) -> Answer {
        if form.get("MaxResults").is_some() {
            let why = "The parameter instancesSet cannot be used with the parameter maxResults";
            return refused(400, "InvalidParameterCombination", why);
        }
        let mut shown = String::new();
        for id in ids {
            let found = self.instances.get(*id);
            match found.filter(|i| i.place == *place && i.found <= now) {
                Some(found) => shown += &reservation(&self.seen(found, now).show(id, ZONE)),
                None => {
                    let why = format!("The instance ID '{id}' does not exist");
                    return refused(400, "InvalidInstanceID.NotFound", &why);
                }
            }
        }
        done("DescribeInstances", &element("reservationSet", &shown))
    }

    fn parts_of(
        &self,
        place: &Place,
        all: &[(String, Vec<String>)],
        is_disk: bool,
        now: Timestamp,
    ) -> Vec<String> {
        let own = self
            .parts
            .iter()
            .filter(|(_, part)| part.place == *place && part.is_disk == is_disk);
        let shown = own.filter_map(|(id, part)| {
            let own = [
                ("volume-id", id.as_str()),
                ("network-interface-id", id.as_str()),
            ];
            let tags = self.tags(&part.tags, part.created, now);
            hold(all, &tags, &own).then(|| {
                let seen = Part {
                    tags: tags.into_owned(),
                    ..part.clone()
                };
                seen.show(id)
            })
        });
        shown.collect()
    }

    /// The tags of something as they are known by now.
    fn tags<'a>(&self, tags: &'a Labels, made: Timestamp, now: Timestamp) -> Cow<'a, Labels> {
        match later(made, self.behaviour.tags_after) <= now {
            true => Cow::Borrowed(tags),
            false => Cow::Owned(Labels::new()),
        }
    }

    /// An instance with those.
    fn seen(&self, instance: &Instance, now: Timestamp) -> Instance {
        Instance {
            tags: self
                .tags(&instance.tags, instance.created, now)
                .into_owned(),
            ..instance.clone()
        }
    }

    fn subnet(&self, id: &str) -> Answer {
        if id != SUBNET {
            let why = format!("The subnet ID '{id}' does not exist");
            return refused(400, "InvalidSubnetID.NotFound", &why);
        }
        let free = self.behaviour.free_addresses.to_string();
        let inner = text("subnetId", id)
            + &text("availabilityZone", ZONE)
            + &text("availableIpAddressCount", &free);
        done(
            "DescribeSubnets",
            &element("subnetSet", &element("item", &inner)),
        )
    }

    fn spot(&self, id: &str) -> Answer {
        let mut all = self.instances.values();
        let Some(found) = all.find(|i| i.spot_request.as_deref() == Some(id)) else {
            let why = format!("The spot instance request ID '{id}' does not exist");
            return refused(400, "InvalidSpotInstanceRequestID.NotFound", &why);
        };
        let (code, since) = match found.marked {
            Some(at) => ("marked-for-termination", at),
            None => ("fulfilled", found.created),
        };
        let status = text("code", code) + &text("updateTime", &since.to_string());
        let inner = text("spotInstanceRequestId", id) + &element("status", &status);
        let set = element("spotInstanceRequestSet", &element("item", &inner));
        done("DescribeSpotInstanceRequests", &set)
    }

    fn page(
        &self,
        action: &str,
        (list, all): (&str, Vec<String>),
        form: &Query,
        endless: bool,
    ) -> Answer {
        let most = form.get("MaxResults").map_or(Ok(usize::MAX), str::parse);
        let from = form.get("NextToken").map_or(Ok(0), str::parse);
        let (Ok(most), Ok(from)): (Result<usize, _>, Result<usize, _>) = (most, from) else {
            return refused(400, "InvalidParameterValue", "It is no number.");
        };
        let is_first = form.get("NextToken").is_none();
        let size = match is_first && self.behaviour.first_page_is_empty {
            true => 0,
            false => self.behaviour.page.min(most),
        };
        let total = all.len();
        let page: String = all.into_iter().skip(from).take(size).collect();
        let mut inner = element(list, &page);
        if from + size < total || endless {
            inner += &text("nextToken", &(from + size).to_string());
        }
        done(action, &inner)
    }
}

fn reservation(item: &str) -> String {
    element("item", &element("instancesSet", item))
}

fn image(id: &str) -> Answer {
    let Some(architecture) = catalogue::image(id) else {
        let why = format!("The image id '[{id}]' does not exist");
        return refused(400, "InvalidAMIID.NotFound", &why);
    };
    let inner = text("imageId", id)
        + &text("imageState", "available")
        + &text("architecture", architecture)
        + &text("rootDeviceName", ROOT);
    done(
        "DescribeImages",
        &element("imagesSet", &element("item", &inner)),
    )
}

fn types(all: &[(String, Vec<String>)]) -> Vec<String> {
    let found = TYPES
        .iter()
        .filter(|type_| hold(all, &Labels::new(), &[("instance-type", type_.name)]));
    let shown = found.map(|type_| {
        let architectures = element("supportedArchitectures", &text("item", type_.architecture));
        let inner = text("instanceType", type_.name)
            + &element("vCpuInfo", &text("defaultVCpus", &type_.cpus.to_string()))
            + &element("memoryInfo", &text("sizeInMiB", &type_.memory.to_string()))
            + &element("processorInfo", &architectures);
        element("item", &inner)
    });
    shown.collect()
}

fn offerings(all: &[(String, Vec<String>)]) -> Vec<String> {
    let found = TYPES.iter().filter(|type_| {
        let own = [("instance-type", type_.name), ("location", ZONE)];
        type_.is_here && hold(all, &Labels::new(), &own)
    });
    let shown = found.map(|type_| element("item", &text("instanceType", type_.name)));
    shown.collect()
}

fn prices(form: &Query) -> Vec<String> {
    let names = form.each("InstanceType");
    let found = TYPES
        .iter()
        .filter(|type_| names.is_empty() || names.contains(&type_.name));
    let shown = found.map(|type_| {
        let inner = text("instanceType", type_.name) + &text("spotPrice", type_.price);
        element("item", &inner)
    });
    shown.collect()
}
