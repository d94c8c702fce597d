//! Which hosts are made or ended by one command, and where they are. Pure.
//!
//! Invariant: no two hosts of one network have one number, and nobody is left behind without the host that
//! leads to it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

use super::options::Options;
use crate::{
    layout::MANAGEMENT_HOST,
    ssh_host::{Place, Role},
};

/// Longest name: an interface's or a cgroup's name is never the limit, a node's name and its labels are.
const LONGEST: usize = 40;
/// So many hosts fit into one network.
const MOST: u8 = 200;

type Places = BTreeMap<String, Place>;

/// What has to be made for `name`, in this order.
pub(super) fn added(there: &Places, name: &str, wanted: &Options) -> Result<Vec<(String, Place)>> {
    check_name(name)?;
    if name == MANAGEMENT_HOST || there.contains_key(name) {
        bail!("there is a host {name:?} already: choose another name, or remove it first")
    }
    if wanted.jump && (wanted.site.is_some() || wanted.via.is_some()) {
        bail!("a jump host is reached directly: leave out --site and --via")
    }
    if wanted.site.is_some() && wanted.via.is_some() {
        bail!("a host of a site is reached through the site's gateway: leave out --via")
    }
    let mut made = Vec::new();
    let mut via = wanted.via.clone();
    if let Some(via) = &via {
        let jump = there.get(via);
        let jump = jump.with_context(|| format!("there is no host {via:?} to go through"))?;
        if jump.role != Role::Jump {
            bail!("{via} is no jump host: make one with --jump")
        }
    }
    if let Some(site) = &wanted.site {
        check_name(site)?;
        let gateway = format!("{site}-gateway");
        if gateway == name {
            bail!("the gateway of the site {site} has this name: choose another one")
        }
        match there.get(&gateway) {
            Some(place) if place.role == Role::Gateway => {}
            Some(_) => bail!(
                "the site's gateway would be called {gateway}, and there is a host of that name"
            ),
            None => made.push((
                gateway.clone(),
                place(there, Role::Gateway, Some(site), None)?,
            )),
        }
        via = Some(gateway);
    }
    let role = if wanted.jump {
        Role::Jump
    } else {
        Role::Machine
    };
    let own = place(there, role, wanted.site.as_ref(), via)?;
    made.push((name.to_owned(), own));
    Ok(made)
}

/// What has to be ended for `name`, in this order.
pub(super) fn removed(there: &Places, name: &str) -> Result<Vec<String>> {
    let place = there.get(name).with_context(|| {
        let names: Vec<_> = there.keys().map(String::as_str).collect();
        format!("there is no host {name:?}; there are: {}", names.join(", "))
    })?;
    let behind = |via: &str| -> Vec<&str> {
        let hosts = there
            .iter()
            .filter(|(_, host)| host.via.as_deref() == Some(via));
        hosts.map(|(name, _)| name.as_str()).collect()
    };
    let others = behind(name);
    if !others.is_empty() {
        bail!(
            "{} are reached through {name}: remove them first",
            others.join(", ")
        )
    }
    let mut ended = vec![name.to_owned()];
    if place.is_private()
        && let Some(gateway) = &place.via
        && behind(gateway) == [name]
    {
        ended.push(gateway.clone());
    }
    Ok(ended)
}

fn place(there: &Places, role: Role, site: Option<&String>, via: Option<String>) -> Result<Place> {
    let mut place = Place {
        role,
        site: site.cloned(),
        via,
        number: 0,
    };
    // What has an address of its site alone is numbered there, all else in the lab's network.
    let neighbour = |other: &&Place| match place.is_private() {
        true => other.is_private() && other.site == place.site,
        false => !other.is_private(),
    };
    let taken: Vec<u8> = there.values().filter(neighbour).map(|p| p.number).collect();
    let number = (1..=MOST).find(|number| !taken.contains(number));
    place.number = number.context("the network is full: remove a host first")?;
    Ok(place)
}

fn check_name(name: &str) -> Result<()> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = name.starts_with(is_inner)
        && name.ends_with(is_inner)
        && name.chars().all(|c| is_inner(c) || c == '-');
    if !is_label || name.len() > LONGEST {
        bail!("{name:?} is no name: at most {LONGEST} of a-z, 0-9 and -, with no - at either end")
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(site: &str) -> Options {
        Options {
            site: Some(site.to_owned()),
            ..Options::default()
        }
    }

    fn through(via: &str) -> Options {
        Options {
            via: Some(via.to_owned()),
            ..Options::default()
        }
    }

    fn jump() -> Options {
        Options {
            jump: true,
            ..Options::default()
        }
    }

    fn with(hosts: &[(&str, Options)]) -> Places {
        let mut there = Places::new();
        for (name, options) in hosts {
            there.extend(added(&there, name, options).unwrap());
        }
        there
    }

    #[test]
    fn a_sites_gateway_comes_with_its_first_host_and_goes_with_its_last() {
        let there = with(&[("a", at("west")), ("b", at("west"))]);
        let names: Vec<_> = there.keys().collect();
        assert_eq!(names, ["a", "b", "west-gateway"]);
        assert_eq!(removed(&there, "a").unwrap(), ["a"]);
        let mut left = there;
        left.remove("a");
        assert_eq!(removed(&left, "b").unwrap(), ["b", "west-gateway"]);
        let refused = removed(&left, "west-gateway").unwrap_err().to_string();
        assert!(refused.contains('b'), "{refused}");
    }

    #[test]
    fn numbers_are_unique_in_each_network_and_used_again() {
        let mut there = with(&[
            ("a", at("west")),
            ("b", at("east")),
            ("c", Options::default()),
        ]);
        let number = |there: &Places, name: &str| there[name].number;
        // Two machines, each the first of its site; three in the lab's network.
        assert_eq!((number(&there, "a"), number(&there, "b")), (1, 1));
        let mut outside = ["west-gateway", "east-gateway", "c"].map(|name| number(&there, name));
        outside.sort_unstable();
        assert_eq!(outside, [1, 2, 3]);
        there.remove("c");
        there.extend(added(&there, "d", &Options::default()).unwrap());
        assert_eq!(number(&there, "d"), 3);
    }

    #[test]
    fn what_cannot_be_is_refused_in_words() {
        let there = with(&[
            ("gate", jump()),
            ("behind", through("gate")),
            ("a", Options::default()),
        ]);
        let refused = |name: &str, options: &Options| {
            let made = added(&there, name, options);
            made.unwrap_err().to_string()
        };
        assert!(refused("a", &Options::default()).contains("already"));
        assert!(refused("management-0", &Options::default()).contains("already"));
        assert!(refused("A_b", &Options::default()).contains("is no name"));
        assert!(refused("-x", &Options::default()).contains("is no name"));
        assert!(refused("x", &through("nobody")).contains("no host \"nobody\""));
        assert!(refused("x", &through("a")).contains("no jump host"));
        let both = Options {
            jump: true,
            ..at("west")
        };
        assert!(refused("x", &both).contains("directly"));
        assert!(
            removed(&there, "gate")
                .unwrap_err()
                .to_string()
                .contains("behind")
        );
        assert!(
            removed(&there, "x")
                .unwrap_err()
                .to_string()
                .contains("a, behind, gate")
        );
    }
}
