/** What an agent proposes for a field: its value, or each change of the list or object around it. */

import { t } from '../shared/i18n';
import type { SchemaField } from './schemaFields';
import { displayValue } from './fieldValue';
import { pathLabel, schemaPath } from './labels';
import { proposedChanges, type Proposal } from './proposals';

const MOST = 8;

interface Props {
  proposal: Proposal;
  /** The field that is shown. */
  path: string;
  schema: readonly SchemaField[];
}

export function ProposedValue({ proposal, path, schema }: Props) {
  const show = (of: string, value: unknown) =>
    displayValue(
      value,
      schema.find((one) => one.path === schemaPath(of)),
    ) || t('fields.nothing');
  if (proposal.path === path)
    return (
      <p>
        {proposal.removed ? t('fields.proposedRemoval') : t('fields.proposed', { value: show(path, proposal.new) })}
      </p>
    );
  const changes = proposedChanges(proposal);
  return (
    <div>
      <p>{t('fields.proposedWhole', { field: pathLabel(proposal.path, schema) })}</p>
      <ul className="wrap-anywhere">
        {changes.slice(0, MOST).map(({ path: at, was, now }) => (
          <li key={at}>
            {t('fields.proposedChange', { field: pathLabel(at, schema), was: show(at, was), now: show(at, now) })}
          </li>
        ))}
        {changes.length > MOST && <li>{t('fields.moreChanges', { count: changes.length - MOST })}</li>}
      </ul>
    </div>
  );
}
