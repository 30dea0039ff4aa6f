/** An input for the model's name; empty for the service's default. Suggests the models with a known price, and the names
 * used before. Any other name can be typed. */

import { Autocomplete } from '@base-ui/react/autocomplete';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { api } from '../api/client';
import { itemClass, popupClass } from '../components/ui/popup';
import { formatPrice } from './format';
import { t } from './i18n';
import { persisted, usePersisted } from './persisted';

const recent = persisted<readonly string[]>('fieldmark.models', (stored) =>
  Array.isArray(stored) ? stored.filter((one): one is string => typeof one === 'string') : [],
);

export const modelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: ({ signal }) => api.get('/api/agent/models', { signal }),
  staleTime: Infinity,
});

export function ModelInput({ value, onChange }: { value: string; onChange: (model: string) => void }) {
  const used = usePersisted(recent);
  const models = useQuery(modelsQuery).data;
  const prices = new Map(models?.items.map((one) => [one.name, one]));
  const names = [...new Set([...prices.keys(), ...used])];
  const priceOf = (name: string) => {
    const { input_usd: input = null, output_usd: output = null } = prices.get(name) ?? {};
    return input === null || output === null
      ? t('common.priceUnknown')
      : t('common.tokenPrice', { input: formatPrice(input), output: formatPrice(output) });
  };
  return (
    <Autocomplete.Root items={names} value={value} onValueChange={(name) => onChange(name.trim())} openOnInputClick>
      <Autocomplete.Input
        aria-label={t('common.model')}
        className="field-sizing-content min-h-7 max-w-44 min-w-24 truncate rounded-md border border-transparent bg-transparent px-2.5 text-sm font-medium placeholder:text-muted-foreground hover:bg-hover focus:border-input"
        placeholder={t('common.defaultModel')}
        maxLength={200}
        autoComplete="off"
        spellCheck={false}
        onBlur={() => {
          if (value !== '' && !names.includes(value)) recent.set([value, ...used].slice(0, 8));
        }}
      />
      <Autocomplete.Portal>
        <Autocomplete.Positioner className="z-50" align="start" sideOffset={4}>
          <Autocomplete.Popup className={popupClass}>
            <div className="px-2 py-1 text-xs text-muted-foreground">{t('common.tokenPriceHint')}</div>
            <Autocomplete.List>
              {(name: string) => (
                <Autocomplete.Item key={name} value={name} className={`${itemClass} justify-between gap-4`}>
                  <span>
                    {name} {name === models?.default && <small className="muted">{t('common.defaultModel')}</small>}
                  </span>
                  <small className="muted">{priceOf(name)}</small>
                </Autocomplete.Item>
              )}
            </Autocomplete.List>
          </Autocomplete.Popup>
        </Autocomplete.Positioner>
      </Autocomplete.Portal>
    </Autocomplete.Root>
  );
}
