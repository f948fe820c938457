//! Label selectors, with the API server's rules for them.

use palisade_model::{LabelSelector, Operator, Requirement};

use crate::read::Reader;
use crate::syntax;
use crate::tree::{Node, Value};

const FIELDS: &[&str] = &["matchLabels", "matchExpressions"];
const EXPRESSION: &[&str] = &["key", "operator", "values"];

impl Reader {
    /// A label selector. Whatever cannot be read is noted, and refuses the object.
    pub(crate) fn selector<'n>(&mut self, node: &'n Node<'n>) -> Option<LabelSelector> {
        let fields = self.fields(node)?;
        self.only(&fields, FIELDS);
        let mut pairs = self.optional(&fields, "matchLabels", Reader::string_map).unwrap_or_default();
        pairs.sort_unstable();
        let mut requirements = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let wrong = syntax::label_key(key).and_then(|()| syntax::label_value(value));
            if let Err(message) = wrong {
                let span = fields.get("matchLabels").map_or(node.span, |it| it.span);
                self.within("matchLabels", |r| r.within(key.to_owned(), |r| r.invalid(span, message)));
            }
            requirements.push(Requirement { key: key.into(), operator: Operator::Equals(value.into()) });
        }
        requirements.extend(self.list(&fields, "matchExpressions", Reader::expression));
        Some(LabelSelector { requirements })
    }

    fn expression<'n>(&mut self, node: &'n Node<'n>) -> Option<Requirement> {
        let fields = self.fields(node)?;
        self.only(&fields, EXPRESSION);
        let key = self.required(&fields, "key", |r, node| r.spelt(node, syntax::label_key))?;
        let operator = self.required(&fields, "operator", Reader::string)?;
        let values = self.list(&fields, "values", |r, node| {
            let value = r.string(node)?;
            if let Err(message) = syntax::label_value(value) {
                r.invalid(node.span, message);
            }
            Some(Box::<str>::from(value))
        });
        let written = fields.get("values").map(|it| &it.value);
        if values.is_empty() && matches!(written, Some(Value::List(items)) if !items.is_empty()) {
            // Each of them was refused, and said so.
            return None;
        }
        let span = fields.get("values").map_or(node.span, |it| it.span);
        let operator = match (operator, values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            ("In" | "NotIn", true) => {
                self.within("values", |r| r.invalid(span, format!("`{operator}` needs at least one value")));
                return None;
            }
            ("Exists" | "DoesNotExist", false) => {
                self.within("values", |r| r.invalid(span, format!("`{operator}` takes no values")));
                return None;
            }
            _ => {
                let message = format!("`{operator}` is not an operator: In, NotIn, Exists or DoesNotExist");
                let span = fields.get("operator").map_or(node.span, |it| it.span);
                self.within("operator", |r| r.invalid(span, message));
                return None;
            }
        };
        Some(Requirement { key: key.into(), operator })
    }
}
