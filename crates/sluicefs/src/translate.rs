//! Ids translated between guest and host, in virtiofsd's words.

use sluice_export::{Becomes, IdMap, IdRun};
use std::fmt;
use std::str::FromStr;

/// How a run of ids is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdTranslation {
    kind: Kind,
    /// Of the side that is translated; of the guest for [`Kind::Map`].
    first: u32,
    target: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Guest,
    Host,
    SquashGuest,
    SquashHost,
    ForbidGuest,
    Map,
}

const KINDS: [(&str, Kind); 6] = [
    ("guest", Kind::Guest),
    ("host", Kind::Host),
    ("squash-guest", Kind::SquashGuest),
    ("squash-host", Kind::SquashHost),
    ("forbid-guest", Kind::ForbidGuest),
    ("map", Kind::Map),
];

impl FromStr for IdTranslation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected map:GUEST:HOST:COUNT, guest:GUEST:HOST:COUNT, \
            host:HOST:GUEST:COUNT, squash-guest:GUEST:HOST:COUNT, \
            squash-host:HOST:GUEST:COUNT or forbid-guest:GUEST:COUNT";
        let (name, numbers) = text.split_once(':').ok_or(FORM)?;
        let kind = KINDS.iter().find(|(known, _)| *known == name);
        let kind = kind.ok_or(FORM)?.1;
        let numbers = numbers.split(':').map(str::parse);
        let numbers: Vec<u32> = numbers.collect::<Result<_, _>>().map_err(|_| FORM)?;
        let (first, target, count) = match (kind, &numbers[..]) {
            (Kind::ForbidGuest, &[first, count]) => (first, 0, count),
            (Kind::ForbidGuest, _) => return Err(FORM.to_owned()),
            (_, &[first, target, count]) => (first, target, count),
            _ => return Err(FORM.to_owned()),
        };
        let translation = IdTranslation {
            kind,
            first,
            target,
            count,
        };
        match id_map(&[translation]) {
            Ok(_) => Ok(translation),
            Err(_) => Err("there are no such ids".to_owned()),
        }
    }
}

impl fmt::Display for IdTranslation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind);
        let name = name.map_or("", |(name, _)| name);
        let IdTranslation {
            first,
            target,
            count,
            ..
        } = self;
        match self.kind {
            Kind::ForbidGuest => write!(f, "{name}:{first}:{count}"),
            _ => write!(f, "{name}:{first}:{target}:{count}"),
        }
    }
}

/// All of them together. Two must not translate the same id in one direction.
pub(crate) fn id_map(translations: &[IdTranslation]) -> Result<IdMap, String> {
    let mut map = IdMap::default();
    for one in translations {
        one.add_to(&mut map)
            .map_err(|_| format!("'{one}' is about ids that were translated before"))?;
    }
    Ok(map)
}

impl IdTranslation {
    fn add_to(&self, map: &mut IdMap) -> sluice_vfs::Result<()> {
        let run = |becomes| IdRun {
            first: self.first,
            count: self.count,
            becomes,
        };
        match self.kind {
            Kind::Guest => map.add_to_host(run(Becomes::From(self.target))),
            Kind::Host => map.add_to_peer(run(Becomes::From(self.target))),
            Kind::SquashGuest => map.add_to_host(run(Becomes::Only(self.target))),
            Kind::SquashHost => map.add_to_peer(run(Becomes::Only(self.target))),
            Kind::ForbidGuest => map.add_to_host(run(Becomes::Refused)),
            Kind::Map => {
                map.add_to_host(run(Becomes::From(self.target)))?;
                map.add_to_peer(IdRun {
                    first: self.target,
                    count: self.count,
                    becomes: Becomes::From(self.first),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_vfs::Errno;

    fn map(words: &[&str]) -> Result<IdMap, String> {
        let parsed: Result<Vec<IdTranslation>, _> = words.iter().map(|word| word.parse()).collect();
        id_map(&parsed?)
    }

    #[test]
    fn each_kind_does_what_it_says() {
        let ids = map(&[
            "map:1000:5000:10",
            "guest:2000:6000:1",
            "host:7000:3000:1",
            "squash-guest:4000:65534:100",
            "squash-host:0:99:10",
            "forbid-guest:0:10",
        ])
        .unwrap();
        assert_eq!((ids.to_host(1009), ids.to_peer(5009)), (Ok(5009), 1009));
        assert_eq!((ids.to_host(2000), ids.to_peer(6000)), (Ok(6000), 6000));
        assert_eq!((ids.to_host(3000), ids.to_peer(7000)), (Ok(3000), 3000));
        assert_eq!([ids.to_host(4000), ids.to_host(4099)], [Ok(65_534); 2]);
        assert_eq!([ids.to_peer(0), ids.to_peer(9)], [99; 2]);
        assert_eq!(ids.to_host(0), Err(Errno::EPERM));
        assert_eq!(ids.to_host(10), Ok(10));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "",
            "map",
            "map:1:2",
            "map:1:2:3:4",
            "map:a:2:3",
            "turn:1:2:3",
            "map:0:1:0",
            "map:0:4294967295:2",
            "forbid-guest:1:2:3",
        ] {
            assert!(bad.parse::<IdTranslation>().is_err(), "{bad}");
        }
        let twice = map(&["map:0:100:10", "forbid-guest:9:1"]).unwrap_err();
        assert!(twice.contains("'forbid-guest:9:1'"), "{twice}");
        // Whatever is left, as Incus says it.
        map(&[
            "map:1000:1000:1",
            "forbid-guest:0:1000",
            "forbid-guest:1001:4294966294",
        ])
        .unwrap();
    }
}
