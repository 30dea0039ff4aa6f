/** An input for the model's name; empty for the service's default. Suggests the names used before. */

import { t } from './i18n';
import { persisted, usePersisted } from './persisted';

const recent = persisted<readonly string[]>('fieldmark.models', (stored) => (Array.isArray(stored) ? stored.filter((one): one is string => typeof one === 'string') : []));

export function ModelInput({ value, onChange }: { value: string; onChange: (model: string) => void }) {
  const names = usePersisted(recent);
  return (
    <>
      <input
        aria-label={t('common.model')}
        placeholder={t('common.defaultModel')}
        size={14}
        maxLength={200}
        list="models-used-before"
        autoComplete="off"
        spellCheck={false}
        value={value}
        onChange={(event) => onChange(event.target.value.trim())}
        onBlur={() => {
          if (value !== '' && !names.includes(value)) recent.set([value, ...names].slice(0, 8));
        }}
      />
      <datalist id="models-used-before">
        {names.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </>
  );
}
