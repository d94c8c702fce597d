//! Addresses, sizes and routes of this machine's network, by netlink.
//!
//! Invariant: of routes only those are touched that lead through the device and bear our protocol number; of
//! addresses only those of the device.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::LinkAttribute;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope,
};
use rtnetlink::{Error, Handle, LinkUnspec, LinkWireguard, RouteMessageBuilder};
use rustix::io::Errno;
use tokio::task::JoinHandle;

/// What our routes say who made them (`rtnetlink(7)`: numbers above 4 are for programs).
const PROTOCOL: RouteProtocol = RouteProtocol::Other(201);

/// A connection to the kernel, of the network namespace that it was made in.
#[derive(Debug)]
pub struct Netlink {
    handle: Handle,
    connection: JoinHandle<()>,
}

/// The network that carries the tunnels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Below {
    /// This machine's address there.
    pub address: Option<IpAddr>,
    /// MTU, in bytes.
    pub mtu: u16,
}

impl Netlink {
    /// Connects. Needs a runtime.
    ///
    /// # Errors
    /// When there is no netlink.
    pub fn open() -> Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection().context("open netlink")?;
        Ok(Self {
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// Makes a WireGuard device, unless there is one of this name. False where the kernel has no WireGuard.
    ///
    /// # Errors
    /// When there is no right to it.
    pub async fn add_wireguard(&self, device: &str) -> Result<bool> {
        let link = LinkWireguard::new(device).build();
        let added = self.handle.link().add(link).execute().await;
        let Err(error) = added else {
            return Ok(true);
        };
        if let Error::NetlinkError(message) = &error {
            match Errno::from_io_error(&message.to_io()) {
                Some(Errno::EXIST) => return Ok(true),
                Some(Errno::OPNOTSUPP) => return Ok(false),
                _ => {}
            }
        }
        Err(error).with_context(|| format!("make the WireGuard device {device}"))
    }

    /// Number of a device.
    ///
    /// # Errors
    /// When there is none of this name.
    pub async fn index(&self, device: &str) -> Result<u32> {
        let links = self.handle.link().get().match_name(device.to_owned());
        let mut links = Box::pin(links.execute());
        let link = links.try_next().await;
        let link = link.with_context(|| format!("look device {device} up"))?;
        let link = link.with_context(|| format!("there is no device {device}"))?;
        Ok(link.header.index)
    }

    /// The network of the default route: where packets to other sites leave.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub async fn below(&self) -> Result<Option<Below>> {
        let mut best: Option<(u32, u32, Option<IpAddr>)> = None;
        for route in self.routes().await? {
            let main = route.header.table == RouteHeader::RT_TABLE_MAIN;
            if !main || route.header.destination_prefix_length != 0 {
                continue;
            }
            let (mut device, mut priority, mut source) = (None, 0, None);
            for attribute in &route.attributes {
                match attribute {
                    RouteAttribute::Oif(index) => device = Some(*index),
                    RouteAttribute::Priority(number) => priority = *number,
                    RouteAttribute::PrefSource(address) => source = ip(address),
                    _ => {}
                }
            }
            if let Some(device) = device
                && best.is_none_or(|(least, _, _)| priority < least)
            {
                best = Some((priority, device, source));
            }
        }
        let Some((_, device, source)) = best else {
            return Ok(None);
        };
        let links = self.handle.link().get().match_index(device);
        let mut links = Box::pin(links.execute());
        let link = links.try_next().await.context("look a device up")?;
        let mtu = link.into_iter().flat_map(|link| link.attributes);
        let mtu = mtu.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(u16::try_from(mtu).unwrap_or(u16::MAX)),
            _ => None,
        });
        let address = match source {
            Some(address) => Some(address),
            None => {
                let all = self.addresses(device).await?;
                let global = all
                    .iter()
                    .filter(|one| one.header.scope == AddressScope::Universe);
                let mut global: Vec<_> = global.filter_map(local).collect();
                // IPv4 first: it is what both ends have.
                global.sort_unstable();
                global.first().copied()
            }
        };
        Ok(mtu.map(|mtu| Below { address, mtu }))
    }

    /// Gives the device this address, MTU and these routes, and no others, and switches it on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub async fn set(
        &self,
        index: u32,
        address: Option<IpAddr>,
        mtu: u16,
        routes: &BTreeMap<IpNet, u16>,
    ) -> Result<()> {
        let link = LinkUnspec::new_with_index(index)
            .mtu(u32::from(mtu))
            .up()
            .build();
        let link = self.handle.link().set(link).execute().await;
        link.context("set the device's MTU and switch it on")?;
        self.set_address(index, address).await?;
        self.set_routes(index, address, routes).await
    }

    async fn set_address(&self, index: u32, address: Option<IpAddr>) -> Result<()> {
        let mut there = false;
        for message in self.addresses(index).await? {
            let held = local(&message);
            if held.is_some() && held == address {
                there = true;
            } else if message.header.scope == AddressScope::Universe {
                let gone = self.handle.address().del(message).execute().await;
                gone.context("remove an address of the device")?;
            }
        }
        if let (false, Some(address)) = (there, address) {
            let added = self
                .handle
                .address()
                .add(index, address, width(address))
                .execute()
                .await;
            added.with_context(|| format!("give the device the address {address}"))?;
        }
        Ok(())
    }

    async fn set_routes(
        &self,
        index: u32,
        source: Option<IpAddr>,
        wanted: &BTreeMap<IpNet, u16>,
    ) -> Result<()> {
        let mut right = BTreeSet::new();
        for route in self.routes().await? {
            let ours = route.header.protocol == PROTOCOL
                && route.attributes.contains(&RouteAttribute::Oif(index));
            if !ours {
                continue;
            }
            let range = destination(&route);
            let mtu = range.and_then(|range| wanted.get(&range));
            if mtu.is_some_and(|mtu| is_right(&route, *mtu, source)) {
                right.extend(range);
            } else {
                let gone = self.handle.route().del(route).execute().await;
                gone.context("remove a route of the device")?;
            }
        }
        for (range, mtu) in wanted {
            if right.contains(range) {
                continue;
            }
            let mut route = RouteMessageBuilder::<IpAddr>::new()
                .destination_prefix(range.addr(), range.prefix_len())
                .context("write a route")?
                .output_interface(index)
                .protocol(PROTOCOL)
                .scope(RouteScope::Link);
            // What the node itself sends to pods elsewhere comes from its own address.
            if let Some(source) = source.filter(|source| source.is_ipv4() == range.addr().is_ipv4())
            {
                route = route.pref_source(source).context("write a route")?;
            }
            let mut route = route.build();
            let mtu = RouteMetric::Mtu(u32::from(*mtu));
            route.attributes.push(RouteAttribute::Metrics(vec![mtu]));
            let added = self.handle.route().add(route).replace().execute().await;
            added.with_context(|| format!("add the route to {range}"))?;
        }
        Ok(())
    }

    async fn routes(&self) -> Result<Vec<RouteMessage>> {
        let mut all = Vec::new();
        let four = RouteMessageBuilder::<std::net::Ipv4Addr>::new().build();
        let six = RouteMessageBuilder::<std::net::Ipv6Addr>::new().build();
        for family in [four, six] {
            let routes = self.handle.route().get(family).execute();
            let routes = routes.try_collect::<Vec<_>>().await;
            all.extend(routes.context("list routes")?);
        }
        Ok(all)
    }

    async fn addresses(&self, index: u32) -> Result<Vec<AddressMessage>> {
        let all = self.handle.address().get().set_link_index_filter(index);
        let all = all.execute().try_collect().await;
        all.context("list addresses")
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn local(message: &AddressMessage) -> Option<IpAddr> {
    let mut attributes = message.attributes.iter();
    let own = attributes.find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    // IPv6 has no local one.
    let mut attributes = message.attributes.iter();
    own.or_else(|| {
        attributes.find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn destination(route: &RouteMessage) -> Option<IpNet> {
    let mut attributes = route.attributes.iter();
    let address = attributes.find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => ip(address),
        _ => None,
    });
    IpNet::new(address?, route.header.destination_prefix_length).ok()
}

fn is_right(route: &RouteMessage, mtu: u16, source: Option<IpAddr>) -> bool {
    let size = RouteMetric::Mtu(u32::from(mtu));
    let mut attributes = route.attributes.iter();
    let sized = attributes.any(|attribute| {
        matches!(attribute, RouteAttribute::Metrics(metrics) if metrics.contains(&size))
    });
    let mut attributes = route.attributes.iter();
    let from = attributes.find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(address) => ip(address),
        _ => None,
    });
    let of_family = destination(route).zip(source);
    let of_family = of_family.filter(|(range, own)| range.addr().is_ipv4() == own.is_ipv4());
    sized && from == of_family.map(|(_, own)| own)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
