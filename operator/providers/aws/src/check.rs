//! Proves that machines can be made as they are asked for, as far as that can be asked without making one.
//!
//! Invariant: nothing is made; EC2 itself says whether it would make one (`DryRun`), which holds for rights and for what is
//! named, and not for room and quota.

use jiff::{SignedDuration, Timestamp};
use providers::identity::Owner;
use providers::offering::Size;
use providers::refused::Asked;
use providers::{Checked, FaultKind, Refused};

use crate::cloud::{Cloud, held};
use crate::offerings::{self, fits};
use crate::parameters::run;
use crate::plan;
use crate::refusal::{NO_SUCH, asked};
use crate::schema::Image;
use crate::settings::Wanted;

/// How old sizes may be.
const SIZES: SignedDuration = SignedDuration::from_hours(6);
/// Addresses that a subnet has left at least, so that machines that are replaced have room.
const FREE: u32 = 8;

impl Cloud {
    /// Proves that machines can be made.
    ///
    /// # Errors
    /// Why none could be made.
    pub async fn check(
        &self,
        types: &[String],
        images: &[String],
        is_spot: bool,
    ) -> Result<Checked, Refused> {
        // What was known of credentials may have changed since.
        *held(&self.account) = None;
        let account = self.account().await?;
        self.check_subnet().await?;
        let sizes = self.sizes(types, is_spot).await?;
        for id in images {
            let image = self.check_image(id).await?;
            if let Some(other) = sizes.iter().find(|size| !fits(&image.architecture, size)) {
                let why = format!(
                    "it is for {}, and {} is not",
                    image.architecture, other.name
                );
                return Err(no_image(&asked("use", format!("image {id}")), &why));
            }
        }
        if let (Some(size), Some(image)) = (types.first(), images.first()) {
            let wanted = Wanted {
                owner: Owner {
                    installation: self.place.installation.clone(),
                    machine: "check".to_owned(),
                    ..Owner::default()
                },
                since: self.calls.now(),
                size: size.clone(),
                image: image.clone(),
                disk: 30,
                is_spot,
                user_data: String::new(),
            };
            self.calls.would_run(run(&wanted, &self.place)).await?;
        }
        Ok(Checked {
            account: Some(account),
        })
    }

    async fn check_subnet(&self) -> Result<(), Refused> {
        let place = &self.place;
        let asked = asked("use", format!("subnet {}", place.subnet));
        let terminal = |why: &str| Refused {
            mend: Some("change the subnet, or the zone".to_owned()),
            ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
        };
        let found = self.calls.subnet(&place.subnet).await?;
        let found = found.ok_or_else(|| terminal("there is no such subnet"))?;
        if found.zone != place.zone {
            return Err(terminal(&format!("it is in zone {}", found.zone)));
        }
        match found.free {
            Some(free) if free < FREE => Err(Refused {
                mend: Some("name a larger subnet, or delete what has its addresses".to_owned()),
                ..asked.refused(
                    FaultKind::Quota { again: None },
                    "InsufficientFreeAddressesInSubnet",
                    format!("it has {free} addresses left"),
                )
            }),
            _ => Ok(()),
        }
    }

    async fn check_image(&self, id: &str) -> Result<Image, Refused> {
        let asked = asked("use", format!("image {id}"));
        let found = match plan::is_image(id) {
            true => self.calls.image(id).await?,
            false => None,
        };
        let found = found.ok_or_else(|| no_image(&asked, "there is no such image"))?;
        if found.state != "available" {
            return Err(no_image(&asked, &format!("it is {}", found.state)));
        }
        if found.root_device != self.place.root_device {
            let why = format!("it calls its first disk {}", found.root_device);
            return Err(no_image(&asked, &why));
        }
        Ok(found)
    }

    /// The sizes of these names, at most six hours old. Their price is that of instances that may be taken back, where
    /// those are asked for.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub async fn sizes(&self, types: &[String], is_spot: bool) -> Result<Vec<Size>, Refused> {
        let now = self.clock.now();
        let mut known = self.sizes.lock().await;
        known.retain(|_, (at, _)| now.duration_since(*at) < SIZES);
        let of = |name: &String| (name.clone(), is_spot);
        let missing = types.iter().filter(|name| !known.contains_key(&of(name)));
        let missing: Vec<_> = missing.cloned().collect();
        if !missing.is_empty() {
            let zone = &self.place.zone;
            let all = self.calls.types(&missing).await?;
            let here = self.calls.types_in(zone, &missing).await?;
            let prices = match is_spot {
                true => self.calls.spot_prices(zone, &missing).await?,
                false => Vec::new(),
            };
            for size in offerings::sizes(&all, &here, &prices, &missing, zone)? {
                known.insert((size.name.clone(), is_spot), (now, size));
            }
        }
        let found = types.iter().filter_map(|name| known.get(&of(name)));
        Ok(found
            .map(|(_, size): &(Timestamp, Size)| size.clone())
            .collect())
    }

    /// The same as far as it is known already, however old; none where one is not, or somebody asks at the moment.
    #[must_use]
    pub fn known_sizes(&self, types: &[String], is_spot: bool) -> Option<Vec<Size>> {
        let known = self.sizes.try_lock().ok()?;
        let each = types.iter().map(|name| {
            let found = known.get(&(name.clone(), is_spot));
            found.map(|(_, size)| size.clone())
        });
        each.collect()
    }
}

fn no_image(asked: &Asked, why: &str) -> Refused {
    Refused {
        mend: Some(
            "name an image by its ID that is for the type, and what it calls its first disk: change the image of the \
             node pool"
                .to_owned(),
        ),
        ..asked.refused(FaultKind::Terminal, NO_SUCH, why)
    }
}
