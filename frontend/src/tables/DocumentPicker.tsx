/** Chooses documents of the organisation. */

import { useInfiniteQuery } from '@tanstack/react-query';
import { useDeferredValue, useState } from 'react';
import { documentsQuery } from '../documents/documentQueries';
import { Button } from '../components/ui/Button';
import { formatAge, visibleText } from '../shared/format';
import { t } from '../shared/i18n';
import { Loading } from '../components/ui/Loading';
import { ErrorNotice } from '../components/ui/Notice';

interface Props {
  chosen: ReadonlySet<string>;
  onChoose: (ids: ReadonlySet<string>) => void;
}

export function DocumentPicker({ chosen, onChoose }: Props) {
  const [name, setName] = useState('');
  const wanted = useDeferredValue(name);
  const listed = useInfiniteQuery({
    ...documentsQuery(wanted === '' ? {} : { name: wanted }),
    placeholderData: (before) => before,
  });
  const documents = listed.data?.pages.flatMap((page) => page.items) ?? [];
  const isAll = documents.length > 0 && documents.every(({ id }) => chosen.has(id));
  return (
    <div className="grid gap-2 [&_label]:flex [&_label]:min-h-7 [&_label]:items-center [&_label]:gap-2">
      <input
        type="search"
        aria-label={t('documents.searchByName')}
        placeholder={t('documents.searchByName')}
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      {listed.isError && <ErrorNotice error={listed.error} onRetry={() => void listed.refetch()} />}
      {listed.isPending ? (
        <Loading lines={3} />
      ) : documents.length === 0 ? (
        <p className="muted">{t('documents.noMatches')}</p>
      ) : (
        <>
          <label>
            <input
              type="checkbox"
              checked={isAll}
              onChange={() => {
                const ids = documents.map(({ id }) => id);
                onChoose(isAll ? new Set([...chosen].filter((id) => !ids.includes(id))) : new Set([...chosen, ...ids]));
              }}
            />
            {t('stacks.chooseAll', { count: documents.length })}
          </label>
          <div
            className="max-h-64 overflow-auto rounded-md border border-border px-2"
            role="group"
            aria-label={t('areas.documents')}
            tabIndex={0}>
            {documents.map((document) => (
              <label key={document.id}>
                <input
                  type="checkbox"
                  checked={chosen.has(document.id)}
                  onChange={({ target }) =>
                    onChoose(
                      target.checked
                        ? new Set([...chosen, document.id])
                        : new Set([...chosen].filter((id) => id !== document.id)),
                    )
                  }
                />
                <span className="min-w-0 flex-1 truncate">{visibleText(document.filename)}</span>
                <span className="muted">{formatAge(document.created_at)}</span>
              </label>
            ))}
          </div>
          {listed.hasNextPage && (
            <Button disabled={listed.isFetchingNextPage} onClick={() => void listed.fetchNextPage()}>
              {t('stacks.moreDocuments')}
            </Button>
          )}
        </>
      )}
    </div>
  );
}
