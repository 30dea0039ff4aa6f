/** What a second reading does, and which model makes it. A model of the same vendor shows less. */

import { useQuery } from '@tanstack/react-query';
import { visibleText } from './format';
import { t } from './i18n';
import { modelsQuery } from './ModelInput';

export function SecondReadingHint({ text }: { text: string }) {
  const models = useQuery(modelsQuery).data;
  if (models === undefined) return text;
  const { second } = models;
  if (second === null) return `${text} ${t('secondReading.noModel')}`;
  const vendor = { true: 'sameVendor', false: 'otherVendor', null: 'unknownVendor' } as const;
  const name = visibleText(second.name);
  return `${text} ${t(`secondReading.${vendor[`${second.is_same_vendor}`]}`, { model: name })}`;
}
