//! The API as OpenAPI 3.1, made from the descriptors, comments of the proto files included: what it
//! says of a field is what the proto files say.

use super::{media::line, messages};
use bytes::Bytes;
use prost_reflect::{
    DescriptorPool, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    MethodDescriptor,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::LazyLock};

/// What is described, beside what it refers to.
const PACKAGE: &str = "rallypoint.v1";
const STATUS: &str = "google.rpc.Status";

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| line(made(messages::pool()).to_string()));

/// The document, as a line of JSON.
pub(super) fn document() -> Bytes {
    DOCUMENT.clone()
}

fn made(pool: &DescriptorPool) -> Value {
    let (mut paths, mut tags) = (Map::new(), Vec::new());
    let mut schemas = Schemas::default();
    let services = pool.services();
    for service in services.filter(|service| service.package_name() == PACKAGE) {
        let said = comment(&service.parent_file(), service.path());
        tags.push(json!({"name": service.name(), "description": said}));
        // Over HTTP a call has one message.
        for method in service.methods().filter(|one| !one.is_client_streaming()) {
            let path = format!("/{}/{}", service.full_name(), method.name());
            paths.insert(path, schemas.operation(&method));
        }
    }
    if let Some(status) = pool.get_message_by_name(STATUS) {
        schemas.refer_to_message(&status);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rallypoint",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The gRPC API in JSON: the same methods, messages and errors. Streams \
                            are server-sent events, and go on behind the event of `Last-Event-ID`.",
            "license": {"name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE")},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

/// Schemas of messages and enumerations by their names; `None`: to be made.
#[derive(Default)]
struct Schemas {
    made: BTreeMap<String, Value>,
    missing: Vec<Kind>,
}

impl Schemas {
    fn operation(&mut self, method: &MethodDescriptor) -> Value {
        let said = comment(&method.parent_file(), method.path());
        let (summary, _) = said.split_once("\n\n").unwrap_or((&said, ""));
        let answer = self.refer_to_message(&method.output());
        let kind = match method.is_server_streaming() {
            true => "text/event-stream",
            false => "application/json",
        };
        json!({"post": {
            "operationId": format!("{}_{}", method.parent_service().name(), method.name()),
            "tags": [method.parent_service().name()],
            "summary": summary.replace('\n', " "),
            "description": said,
            "requestBody": {
                "required": true,
                "content": {"application/json": {"schema": self.refer_to_message(&method.input())}},
            },
            "responses": {
                "200": {"description": "The answer.", "content": {kind: {"schema": answer}}},
                "default": {
                    "description": "An error, with its details.",
                    "content": {"application/json": {"schema": reference(STATUS)}},
                },
            },
        }})
    }

    /// All that was referred to, and what that refers to.
    fn all(mut self) -> BTreeMap<String, Value> {
        while let Some(kind) = self.missing.pop() {
            let (name, schema) = match kind {
                Kind::Message(message) => (message.full_name().to_owned(), self.object(&message)),
                Kind::Enum(values) => (values.full_name().to_owned(), names(&values)),
                _ => continue,
            };
            self.made.insert(name, schema);
        }
        self.made
    }

    fn refer_to_message(&mut self, message: &MessageDescriptor) -> Value {
        match well_known(message.full_name()) {
            Some(schema) => schema,
            None => self.refer(message.full_name(), Kind::Message(message.clone())),
        }
    }

    fn refer(&mut self, name: &str, kind: Kind) -> Value {
        if !self.made.contains_key(name) {
            self.made.insert(name.to_owned(), Value::Null);
            self.missing.push(kind);
        }
        reference(name)
    }

    fn object(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
            let mut schema = self.field(&field);
            let said = comment(&field.parent_file(), field.path());
            if !said.is_empty() {
                schema["description"] = said.into();
            }
            properties.insert(field.name().to_owned(), schema);
        }
        json!({
            "type": "object",
            "description": comment(&message.parent_file(), message.path()),
            "properties": properties,
            "additionalProperties": false,
        })
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        if field.is_map() {
            let entry = field.kind();
            let value = entry
                .as_message()
                .map(|entry| entry.map_entry_value_field());
            let value = value.map_or(json!({}), |value| self.value(&value.kind()));
            return json!({"type": "object", "additionalProperties": value});
        }
        let value = self.value(&field.kind());
        match field.is_list() {
            true => json!({"type": "array", "items": value}),
            false => value,
        }
    }

    fn value(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::Double | Kind::Float => json!({"type": "number", "format": "double"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({"type": "integer", "format": "int32"})
            }
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => {
                json!({"type": "integer", "format": "int64"})
            }
            Kind::Enum(values) if values.full_name() == "google.protobuf.NullValue" => {
                json!({"type": "null"})
            }
            Kind::Enum(values) => self.refer(values.full_name(), kind.clone()),
            Kind::Message(message) => self.refer_to_message(message),
        }
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn names(values: &EnumDescriptor) -> Value {
    let (mut names, mut said) = (Vec::new(), Vec::new());
    let file = values.parent_file();
    said.push(comment(&file, values.path()));
    for value in values.values() {
        names.push(value.name().to_owned());
        let about = comment(&file, value.path());
        if !about.is_empty() {
            said.push(format!(
                "- `{}`: {}",
                value.name(),
                about.replace('\n', " ")
            ));
        }
    }
    json!({"type": "string", "enum": names, "description": said.join("\n")})
}

/// Messages that have a JSON of their own.
fn well_known(name: &str) -> Option<Value> {
    Some(match name {
        "google.protobuf.Timestamp" => json!({"type": "string", "format": "date-time"}),
        "google.protobuf.Duration" => {
            json!({"type": "string", "pattern": r"^-?\d+(\.\d+)?s$", "examples": ["1.5s"]})
        }
        "google.protobuf.FieldMask" => {
            json!({"type": "string", "examples": ["weight,labels"]})
        }
        "google.protobuf.Empty" => json!({"type": "object", "additionalProperties": false}),
        "google.protobuf.Any" => json!({
            "type": "object",
            "properties": {"@type": {"type": "string"}},
            "required": ["@type"],
        }),
        _ => return None,
    })
}

/// What stands above a part of a proto file.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let file = file.file_descriptor_proto();
    let locations = file.source_code_info.as_ref().map(|info| &info.location);
    let location = locations.and_then(|all| all.iter().find(|location| location.path == path));
    let said = location.and_then(|location| location.leading_comments.as_deref());
    let lines = said.unwrap_or_default().lines();
    let lines: Vec<&str> = lines
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value.as_str()) {
                        ("$ref", Some(to)) => drop(found.insert(to.to_owned())),
                        _ => references(value, found),
                    }
                }
            }
            Value::Array(values) => values.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    fn parsed() -> Value {
        serde_json::from_slice(&document()).expect("JSON")
    }

    #[test]
    fn every_method_is_described_by_what_the_proto_files_say() {
        let document = parsed();
        let pool = messages::pool();
        let mut methods = 0;
        for service in pool.services().filter(|one| one.package_name() == PACKAGE) {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                if method.is_client_streaming() {
                    assert!(document["paths"].get(&path).is_none(), "{path}");
                    continue;
                }
                let operation = &document["paths"][&path]["post"];
                assert!(
                    !operation["summary"].as_str().expect(&path).is_empty(),
                    "{path}"
                );
                methods += 1;
            }
        }
        let paths = document["paths"].as_object().expect("paths");
        assert_eq!((paths.len(), methods > 50), (methods, true));
        let exec = &document["paths"]["/rallypoint.v1.SchedulerService/ExecAsync"]["post"];
        let summary = exec["summary"].as_str().expect("a summary");
        assert!(
            summary.starts_with("Submits tasks: all or nothing"),
            "{summary}"
        );
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_every_schema_is_referred_to() {
        let document = parsed();
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        let schemas = document["components"]["schemas"]
            .as_object()
            .expect("schemas");
        let there = schemas
            .keys()
            .map(|name| format!("#/components/schemas/{name}"));
        assert_eq!(found, there.collect());
        for (name, schema) in schemas {
            assert!(schema["type"].is_string(), "{name} is empty");
        }
        let task = &schemas["rallypoint.v1.Task"]["properties"];
        assert_eq!(task["order"]["format"], "int64");
        assert_eq!(task["sql"], reference("rallypoint.v1.SqlTask"));
        let outcome = &schemas["rallypoint.v1.Outcome"]["enum"];
        assert!(outcome.as_array().expect("names").len() > 5);
    }
}
